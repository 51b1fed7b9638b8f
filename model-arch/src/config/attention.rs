//! How layers attend: which of them see only a window, how scores are scaled and capped.

use super::error::ConfigError;
use super::keys::Keys;
use super::rope::{RopeConfig, RopeScaling};

/// The window of Gemma 2 files that do not say theirs.
const GEMMA2_WINDOW: u32 = 4096;
/// The base frequency of sliding layers in Gemma 3 files that do not say theirs.
const GEMMA3_LOCAL_BASE: f32 = 10_000.0;

/// What all layers' attention has in common, and which layers slide.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionConfig {
    /// Multiplies the products of queries and keys.
    pub scale: f32,
    /// Scores pass through `cap * tanh(score / cap)`.
    pub softcap: Option<f32>,
    /// Per layer, how many positions a query sees, its own included; 0 for all.
    pub windows: Vec<u32>,
    /// The rotary embedding of layers with a window, where theirs is another.
    pub sliding_rope: Option<RopeConfig>,
}

impl AttentionConfig {
    pub(super) fn read(
        keys: &Keys<'_>,
        n_layer: u32,
        rope: &RopeConfig,
        scale: f32,
    ) -> Result<Self, ConfigError> {
        let architecture = keys.architecture();
        // 0 is how some converters write "none".
        let window = keys.integer("attention.sliding_window")?.filter(|&window| window > 0);
        let (window, every) = match architecture {
            "gemma2" => (Some(window.unwrap_or(GEMMA2_WINDOW)), 2),
            "gemma3" => (window, 6),
            _ => (window, 1),
        };
        let windows = match window {
            None => vec![0; n_layer as usize],
            Some(window) => keys
                .sliding_layers(n_layer, every)?
                .into_iter()
                .map(|slides| if slides { window } else { 0 })
                .collect(),
        };
        let softcap = keys.optional_positive("attn_logit_softcapping", f32::MAX)?;
        let local_base = keys.optional_positive("rope.freq_base_swa", f32::MAX)?;
        let sliding_rope = match (architecture, local_base) {
            // The context of global layers is stretched; a window needs no stretching.
            ("gemma3", base) => Some(base.unwrap_or(GEMMA3_LOCAL_BASE)),
            (_, base) => base,
        };
        let sliding_rope = sliding_rope.map(|base| RopeConfig {
            base,
            scaling: if architecture == "gemma3" { RopeScaling::None } else { rope.scaling.clone() },
            ..rope.clone()
        });
        Ok(AttentionConfig { scale, softcap, windows, sliding_rope })
    }
}
