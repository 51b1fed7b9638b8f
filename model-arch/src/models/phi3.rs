//! `phi3`: as `llama` with rotary halves, and with queries, keys and values in one tensor and gate and up
//! in another, which are read as the parts they are; long and short rotary divisors.

use super::parts::{self, name};
use super::rope::{Form, Rope};
use crate::config::{EMBEDDING_TENSOR, ModelConfig};
use crate::plan::{Builder, Plan, PlanError, PlanProblem};

/// The plan of a `phi3` model.
pub(super) fn build(config: &ModelConfig, mut builder: Builder<'_>, ctx: u32) -> Result<Plan, PlanError> {
    let (n_q, n_k, n_v) = (config.n_embd_q(), config.n_embd_k(), config.n_embd_v());
    let (width, n_ff) = (config.n_embd, config.n_ff);
    let fused = n_q.checked_add(n_k).and_then(|rows| rows.checked_add(n_v)).zip(n_ff.checked_mul(2));
    let Some((n_qkv, n_gate_up)) = fused else {
        return Err(builder.fail(PlanProblem::FusedTooLarge));
    };
    let b = &mut builder;
    let table = b.matrix(EMBEDDING_TENSOR, config.n_vocab, width)?;
    let rope = Rope::new(config, b, Form::Halves, ctx)?;

    let mut hidden = b.embed(table, 1.0);
    for layer in 0..config.n_layer {
        parts::begin_layer(config, b, layer);
        let x = parts::norm(config, b, layer, "attn_norm", hidden)?;
        let tensor = name(layer, "attn_qkv.weight");
        let mut part = |value: &str, first, rows| {
            let weight = b.matrix_part(&tensor, [first, rows, n_qkv], width)?;
            Ok(b.matmul(value, x, weight, None))
        };
        let qkv = [part("attn_q", 0, n_q)?, part("attn_k", n_q, n_k)?, part("attn_v", n_q + n_k, n_v)?];
        let out = parts::attend(config, b, layer, &rope, qkv)?;
        hidden = b.add("attn_residual", hidden, out);

        let x = parts::norm(config, b, layer, "ffn_norm", hidden)?;
        let tensor = name(layer, "ffn_up.weight");
        let mut part = |value: &str, first| {
            let weight = b.matrix_part(&tensor, [first, n_ff, n_gate_up], width)?;
            Ok(b.matmul(value, x, weight, None))
        };
        let (gate, up) = (part("ffn_gate", 0)?, part("ffn_up", n_ff)?);
        let gated = b.glu("ffn_glu", gate, up, 0);
        let out = parts::project(b, layer, "ffn_down", gated, [width, n_ff])?;
        hidden = b.add("ffn_residual", hidden, out);
    }

    let logits = parts::logits(config, b, hidden, table)?;
    builder.finish(logits, &config.architecture)
}
