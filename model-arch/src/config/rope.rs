//! Rotary position embedding as the metadata describes it.

use super::error::{ConfigError, ConfigProblem};
use super::keys::Keys;

/// The base frequency used when the file names none.
const DEFAULT_BASE: f32 = 10_000.0;

/// How positions turn queries and keys. Per-dimension factors, where a model has them, are a tensor
/// (`rope_freqs.weight`) and belong to the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// Values of each head that are turned, from the first; even, at most the head size.
    pub dim: u32,
    /// The base of the frequencies.
    pub base: f32,
    /// How positions beyond the original context are brought into it.
    pub scaling: RopeScaling,
}

/// How positions are scaled.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Every position divided by `factor`.
    Linear {
        /// The divisor.
        factor: f32,
    },
    /// Low frequencies divided by `factor`, high ones kept, a ramp between.
    Yarn(Yarn),
    /// Per-frequency divisors for short and for long contexts, as tensors of the file.
    LongRope {
        /// The context length up to which the short ones hold.
        original_ctx: u32,
        /// Multiplies sine and cosine.
        attn_factor: f32,
    },
}

/// The numbers of YaRN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// The divisor of the lowest frequencies.
    pub factor: f32,
    /// The context length before scaling.
    pub original_ctx: u32,
    /// Multiplies sine and cosine: the whole magnitude correction.
    pub attn_factor: f32,
    /// Where the ramp begins, in turns over the original context.
    pub beta_fast: f32,
    /// Where the ramp ends.
    pub beta_slow: f32,
}

impl Yarn {
    /// YaRN as its paper has it: a ramp from 32 turns to one, magnitude by the logarithm of the factor.
    pub fn usual(factor: f32, original_ctx: u32) -> Yarn {
        let attn_factor = 1.0 + 0.1 * factor.max(1.0).ln();
        Yarn { factor, original_ctx, attn_factor, beta_fast: 32.0, beta_slow: 1.0 }
    }
}

impl RopeConfig {
    pub(super) fn read(keys: &Keys<'_>, head_dim: u32) -> Result<Self, ConfigError> {
        let key = "rope.dimension_count";
        let dim = keys.optional(key, super::cap::HEAD_DIM)?.unwrap_or(head_dim);
        if !dim.is_multiple_of(2) || dim > head_dim {
            return Err(keys.problem(ConfigProblem::RopeDim {
                key: keys.full(key),
                rope_dim: dim,
                head_dim,
            }));
        }
        let base = keys.optional_positive("rope.freq_base", f32::MAX)?.unwrap_or(DEFAULT_BASE);
        Ok(RopeConfig { dim, base, scaling: RopeScaling::read(keys)? })
    }
}

impl RopeScaling {
    fn read(keys: &Keys<'_>) -> Result<Self, ConfigError> {
        let kind = "rope.scaling.type";
        let factor = keys.optional_positive("rope.scaling.factor", f32::MAX)?;
        // Files older than `rope.scaling.*` give a linear factor alone.
        let older = keys.optional_positive("rope.scale_linear", f32::MAX)?;
        match keys.str(kind)? {
            Some("none") => Ok(RopeScaling::None),
            Some("yarn") => {
                let mut yarn = Yarn::usual(factor.unwrap_or(1.0), original_ctx(keys)?);
                yarn.attn_factor *=
                    keys.optional_positive("rope.scaling.attn_factor", f32::MAX)?.unwrap_or(1.0);
                let ramp = |key| keys.optional_positive(key, f32::MAX);
                yarn.beta_fast = ramp("rope.scaling.yarn_beta_fast")?.unwrap_or(yarn.beta_fast);
                yarn.beta_slow = ramp("rope.scaling.yarn_beta_slow")?.unwrap_or(yarn.beta_slow);
                Ok(RopeScaling::Yarn(yarn))
            }
            Some("longrope") => RopeScaling::read_long(keys),
            // Conversions of Phi 3 name no kind: that they have divisors says it.
            None if keys.has_tensor("rope_factors_long.weight") => RopeScaling::read_long(keys),
            Some("linear") | None => Ok(match factor.or(older) {
                None | Some(1.0) => RopeScaling::None,
                Some(factor) => RopeScaling::Linear { factor },
            }),
            Some(found) => {
                Err(keys.problem(ConfigProblem::RopeScaling { key: keys.full(kind), found: found.into() }))
            }
        }
    }

    fn read_long(keys: &Keys<'_>) -> Result<Self, ConfigError> {
        Ok(RopeScaling::LongRope {
            original_ctx: original_ctx(keys)?,
            attn_factor: keys.optional_positive("rope.scaling.attn_factor", f32::MAX)?.unwrap_or(1.0),
        })
    }
}

/// The context length before scaling; the trained one where the file gives no other.
fn original_ctx(keys: &Keys<'_>) -> Result<u32, ConfigError> {
    match keys.optional("rope.scaling.original_context_length", super::cap::CONTEXT)? {
        Some(original) => Ok(original),
        None => keys.require("context_length", super::cap::CONTEXT),
    }
}
