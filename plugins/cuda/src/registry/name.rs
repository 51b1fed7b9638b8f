//! Names: of rows, and of the kernels behind them.

use cajeta_plugin_api::abi::Regime;
use cajeta_plugin_api::catalog::quant::Format;

use super::{Entry, Kind, RowsStream, Stream};

/// A format as it stands in names: `Q4_K` is `q4k`.
fn prefix(format: Option<Format>) -> String {
    format.map_or_else(String::new, |format| format.name().to_lowercase().replace('_', ""))
}

/// The row's name, for instance `q4kWaveMatVecCols`.
pub(super) fn of(entry: Entry) -> String {
    let stem = match entry.kind {
        Kind::Attention => "attnFlashGqa".to_owned(),
        kind => format!("{}{}", prefix(entry.format), stem(kind)),
    };
    let regime = match (entry.kind, entry.regime) {
        (Kind::PackRows { .. } | Kind::Rows(_), _) => "",
        (_, Regime::DECODE_COLS) => "Cols",
        (Kind::TileGemm, _) => "",
        (_, Regime::PREFILL_BATCH) => "Batch",
        _ => "",
    };
    format!("{stem}{regime}")
}

fn stem(kind: Kind) -> String {
    let fixed = match kind {
        Kind::Embed => "Embed",
        Kind::Norm => "rmsNorm",
        Kind::Add => "add",
        Kind::Glu { gelu: false } => "gluSilu",
        Kind::Glu { gelu: true } => "gluGelu",
        Kind::Copy => "copyRows",
        Kind::RopeAppend { pairs: false } => "ropeAppendHalves",
        Kind::RopeAppend { pairs: true } => "ropeAppendPairs",
        Kind::Attention => "attnFlashGqa",
        Kind::Argmax => "argmaxRow",
        Kind::Sample => "sampleRow",
        Kind::Advance => "advanceState",
        Kind::MatVec => "WaveMatVec",
        Kind::TileGemm => "TileGemm",
        Kind::Relayout => "RelayoutTile16",
        Kind::Stream(Stream::Product) => "StreamMatVec",
        Kind::Stream(Stream::ProductAdd) => "StreamMatVecAdd",
        Kind::Stream(Stream::NormProduct) => "StreamNormMatVec",
        Kind::Stream(Stream::NormGateUp { gelu: false }) => "StreamNormGateUpSilu",
        Kind::Stream(Stream::NormGateUp { gelu: true }) => "StreamNormGateUpGelu",
        Kind::Stream(Stream::NormQkv { value }) => {
            return format!("{}StreamNormQkvPairs", prefix(Some(value)));
        }
        Kind::PackRows { norm: false } => "packRows",
        Kind::PackRows { norm: true } => "normPackRows",
        Kind::Rows(RowsStream::Product) => "StreamRows",
        Kind::Rows(RowsStream::ProductAdd) => "StreamRowsAdd",
        Kind::Rows(RowsStream::GateUp { gelu: false }) => "StreamRowsGateUpSilu",
        Kind::Rows(RowsStream::GateUp { gelu: true }) => "StreamRowsGateUpGelu",
        Kind::Rows(RowsStream::Qkv { value }) => {
            return format!("{}StreamRowsQkv", prefix(Some(value)));
        }
    };
    fixed.to_owned()
}

impl Entry {
    /// Every kernel a launch of this row may run.
    pub(crate) fn kernels(self) -> Vec<String> {
        let stem = format!("{}{}", prefix(self.format), stem(self.kind));
        match self.kind {
            Kind::Attention => {
                let plain = ["attnFlashGqa64", "attnFlashGqa128", "attnFlashGqa256", "attnReduce"];
                let packed = ["attnPacked64", "attnPacked128", "attnPacked256"];
                plain.into_iter().chain(packed).map(str::to_owned).collect()
            }
            Kind::Rows(_) => ["4", "8", "16"].map(|rows| format!("{stem}{rows}")).to_vec(),
            Kind::MatVec if self.regime == Regime::DECODE_COLS => {
                ["", "Cols2", "Cols4", "Cols8"].map(|columns| format!("{stem}{columns}")).to_vec()
            }
            _ => vec![stem],
        }
    }
}
