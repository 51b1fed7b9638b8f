//! `qwen3`: rotary halves, and a norm over each head of queries and keys before they are rotated.

use super::parts;
use super::rope::{Form, Rope};
use crate::config::{EMBEDDING_TENSOR, ModelConfig};
use crate::plan::{Builder, Plan, PlanError};

/// The plan of a `qwen3` model.
pub(super) fn build(config: &ModelConfig, mut builder: Builder<'_>, ctx: u32) -> Result<Plan, PlanError> {
    let b = &mut builder;
    let table = b.matrix(EMBEDDING_TENSOR, config.n_vocab, config.n_embd)?;
    let rope = Rope::new(config, b, Form::Halves, ctx)?;

    let mut hidden = b.embed(table, 1.0);
    for layer in 0..config.n_layer {
        parts::begin_layer(config, b, layer);
        let x = parts::norm(config, b, layer, "attn_norm", hidden)?;
        let [q, k, v] = parts::queries_keys_values(config, b, layer, x)?;
        let q = parts::head_norm(config, b, layer, "attn_q_norm", q)?;
        let k = parts::head_norm(config, b, layer, "attn_k_norm", k)?;
        let out = parts::attend(config, b, layer, &rope, [q, k, v])?;
        hidden = b.add("attn_residual", hidden, out);

        let x = parts::norm(config, b, layer, "ffn_norm", hidden)?;
        let out = parts::feed_forward(config, b, layer, x, 0)?;
        hidden = b.add("ffn_residual", hidden, out);
    }

    let logits = parts::logits(config, b, hidden, table)?;
    builder.finish(logits, &config.architecture)
}
