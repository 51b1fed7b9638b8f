//! The rotary embedding of a layer: scalars, attributes and per-frequency divisors.

use cajeta_catalog::op::attr;
use cajeta_catalog::scalars::RopeAppendScalars;

use crate::config::{ModelConfig, RopeScaling};
use crate::plan::{Builder, PlanError, TensorId};

/// What is rotated together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Neighbours (2i, 2i + 1).
    Pairs,
    /// The same place of both halves (i, i + dim / 2).
    Halves,
}

/// The rotary embeddings of a model.
pub(super) struct Rope<'a> {
    config: &'a ModelConfig,
    form: Form,
    factors: Option<TensorId>,
}

impl<'a> Rope<'a> {
    /// Binds the divisors that the file has: `rope_freqs.weight`, or of the long and the short ones
    /// those that a context of `ctx` positions takes.
    pub(super) fn new(
        config: &'a ModelConfig,
        b: &mut Builder<'_>,
        form: Form,
        ctx: u32,
    ) -> Result<Self, PlanError> {
        let count = config.rope.dim / 2;
        let factors = match config.rope.scaling {
            RopeScaling::LongRope { original_ctx, .. } => {
                let (long, short) = ("rope_factors_long.weight", "rope_factors_short.weight");
                let (used, other) = if ctx > original_ctx { (long, short) } else { (short, long) };
                b.leave(other);
                Some(b.vector(used, count)?)
            }
            _ => b.optional_vector("rope_freqs.weight", count)?,
        };
        Ok(Rope { config, form, factors })
    }

    /// The divisors, attributes and scalars of a layer.
    pub(super) fn of(&self, layer: u32) -> (Option<TensorId>, u64, RopeAppendScalars) {
        let rope = self.config.rope_of(layer);
        let mut scalars = RopeAppendScalars {
            n_head: self.config.n_head,
            n_head_kv: self.config.n_head_kv,
            head_dim: self.config.head_dim_k,
            rope_dim: rope.dim,
            max_blocks: 0,
            original_context: 0,
            base: rope.base,
            freq_scale: 1.0,
            attn_factor: 1.0,
            ext_factor: 0.0,
            beta_fast: 0.0,
            beta_slow: 0.0,
        };
        let mut attrs = if self.form == Form::Pairs { attr::ROPE_PAIRS } else { 0 };
        match rope.scaling {
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => scalars.freq_scale = 1.0 / factor,
            RopeScaling::Yarn(yarn) => {
                attrs |= attr::ROPE_YARN;
                scalars.freq_scale = 1.0 / yarn.factor;
                scalars.original_context = yarn.original_ctx;
                scalars.attn_factor = yarn.attn_factor;
                scalars.ext_factor = 1.0;
                (scalars.beta_fast, scalars.beta_slow) = (yarn.beta_fast, yarn.beta_slow);
            }
            RopeScaling::LongRope { original_ctx, attn_factor } if attn_factor != 1.0 => {
                // Of YaRN's blend nothing, of its magnitude all.
                attrs |= attr::ROPE_YARN;
                scalars.original_context = original_ctx;
                scalars.attn_factor = attn_factor;
                (scalars.beta_fast, scalars.beta_slow) = (32.0, 1.0);
            }
            RopeScaling::LongRope { .. } => {}
        }
        // Divisors stretch what is scaled; a layer with a rotary embedding of its own is not.
        let own = self.config.attention.sliding_rope.is_some() && self.config.window_of(layer) > 0;
        (self.factors.filter(|_| !own), attrs, scalars)
    }
}
