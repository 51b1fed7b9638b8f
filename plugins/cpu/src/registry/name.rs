//! Names of rows: format, what, regime, tier.

use cajeta_plugin_api::abi::Regime;

use super::{Entry, Kind};
use crate::kernel::table::FORMATS;

/// The row's name, for instance `q4kWaveMatVecColsAvx512`.
pub(super) fn of(entry: Entry) -> String {
    let short = |index: usize| FORMATS[index].name().to_lowercase().replace('_', "");
    let format = entry.format.map(short).unwrap_or_default();
    let decode = entry.regime == Regime::DECODE_ROW || entry.regime == Regime::DECODE_COLS;
    let product = match (decode, entry.wide) {
        (true, _) => "WaveMatVec",
        (false, false) => "PanelGemm",
        (false, true) => "DeqGemm",
    };
    let what = match entry.kind {
        Kind::Embed => format!("{format}Embed"),
        Kind::Norm => "rmsNorm".to_owned(),
        Kind::Add => "add".to_owned(),
        Kind::Glu { gelu: false } => "gluSilu".to_owned(),
        Kind::Glu { gelu: true } => "gluGelu".to_owned(),
        Kind::Copy => "copyRows".to_owned(),
        Kind::RopeAppend { pairs: false } => "ropeAppendHalves".to_owned(),
        Kind::RopeAppend { pairs: true } => "ropeAppendPairs".to_owned(),
        Kind::Attention if decode => "attnDecodeGqa".to_owned(),
        Kind::Attention => "attnFlashTileGqa".to_owned(),
        Kind::AttentionRows => "attnRowsGqa".to_owned(),
        Kind::Argmax => "argmaxRow".to_owned(),
        Kind::Sample => "sampleRow".to_owned(),
        Kind::Advance => "advanceState".to_owned(),
        Kind::Widen => format!("{format}Widen"),
        Kind::Matmul => format!("{format}{product}"),
        Kind::MatmulFar => format!("{format}{product}Far"),
        Kind::MatmulAdd => format!("{format}{product}Add"),
        Kind::GateUp { gelu: false } => format!("{format}{product}GateUpSilu"),
        Kind::GateUp { gelu: true } => format!("{format}{product}GateUpGelu"),
        Kind::Qkv { value } if entry.format == Some(value) => format!("{format}{product}Qkv"),
        Kind::Qkv { value } => format!("{format}{}{product}Qkv", capital(&short(value))),
    };
    let regime = match entry.regime {
        Regime::DECODE_COLS => "Cols",
        Regime::PREFILL_BATCH if entry.kind.is_shared() => "Batch",
        _ => "",
    };
    format!("{what}{regime}{}", entry.tier.suffix())
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

impl Kind {
    /// Whether prefill and decode rows of this kind would share a name.
    fn is_shared(self) -> bool {
        !self.is_product() && !self.is_attention()
    }

    /// Names the rows that are shapes of one design.
    pub(super) fn family(self, decode: bool, wide: bool) -> &'static str {
        match self {
            Kind::Matmul if wide => "deqGemm",
            Kind::MatmulAdd if wide => "deqGemmAdd",
            Kind::GateUp { .. } if wide => "deqGemmGateUp",
            Kind::Qkv { .. } if wide => "deqGemmQkv",
            Kind::Matmul | Kind::MatmulFar if decode => "waveMatVec",
            Kind::MatmulAdd if decode => "waveMatVecAdd",
            Kind::GateUp { .. } if decode => "waveMatVecGateUp",
            Kind::Qkv { .. } if decode => "waveMatVecQkv",
            Kind::Matmul | Kind::MatmulFar => "panelGemm",
            Kind::MatmulAdd => "panelGemmAdd",
            Kind::GateUp { .. } => "panelGemmGateUp",
            Kind::Qkv { .. } => "panelGemmQkv",
            Kind::Attention if decode => "attnDecode",
            // Whether a prefill's tile pays is asked of the two of them.
            Kind::Attention | Kind::AttentionRows => "attnFlashTile",
            _ => "",
        }
    }
}
