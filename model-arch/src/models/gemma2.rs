//! `gemma2`: scaled embedding, norms before and after each part, rotary halves, a window on every other
//! layer, caps on scores and logits, GeGLU. Norm weights in a file include the one that is added to them.

use cajeta_catalog::op::attr;

use super::parts;
use super::rope::{Form, Rope};
use crate::config::{EMBEDDING_TENSOR, ModelConfig};
use crate::plan::{Builder, Plan, PlanError};

/// The plan of a `gemma2` model.
pub(super) fn build(config: &ModelConfig, mut builder: Builder<'_>, ctx: u32) -> Result<Plan, PlanError> {
    let b = &mut builder;
    let table = b.matrix(EMBEDDING_TENSOR, config.n_vocab, config.n_embd)?;
    let rope = Rope::new(config, b, Form::Halves, ctx)?;

    let mut hidden = b.embed(table, (config.n_embd as f32).sqrt());
    for layer in 0..config.n_layer {
        parts::begin_layer(config, b, layer);
        let x = parts::norm(config, b, layer, "attn_norm", hidden)?;
        let qkv = parts::queries_keys_values(config, b, layer, x)?;
        let out = parts::attend(config, b, layer, &rope, qkv)?;
        let out = parts::norm(config, b, layer, "post_attention_norm", out)?;
        hidden = b.add("attn_residual", hidden, out);

        let x = parts::norm(config, b, layer, "ffn_norm", hidden)?;
        let out = parts::feed_forward(config, b, layer, x, attr::GLU_GELU)?;
        let out = parts::norm(config, b, layer, "post_ffw_norm", out)?;
        hidden = b.add("ffn_residual", hidden, out);
    }

    let logits = parts::logits(config, b, hidden, table)?;
    builder.finish(logits, &config.architecture)
}
