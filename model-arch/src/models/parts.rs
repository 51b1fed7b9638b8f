//! Parts that several architectures have in common.

use cajeta_catalog::op::attr;
use cajeta_catalog::scalars::AttentionScalars;

use super::rope::Rope;
use crate::config::ModelConfig;
use crate::plan::{Builder, KvShape, PlanError, TensorId, ValueId};

/// A tensor of a layer.
pub(super) fn name(layer: u32, part: &str) -> String {
    format!("blk.{layer}.{part}")
}

/// Begins a layer with the cache its heads and window need.
pub(super) fn begin_layer(config: &ModelConfig, b: &mut Builder<'_>, layer: u32) {
    b.begin_layer(
        layer,
        KvShape { n_head_kv: config.n_head_kv, head_dim: config.head_dim_k, window: config.window_of(layer) },
    );
}

/// The norm `PART.weight` of a layer.
pub(super) fn norm(
    config: &ModelConfig,
    b: &mut Builder<'_>,
    layer: u32,
    part: &str,
    x: ValueId,
) -> Result<ValueId, PlanError> {
    let weight = b.vector(&name(layer, &format!("{part}.weight")), config.n_embd)?;
    Ok(b.norm(part, x, weight, config.norm_eps))
}

/// The norm `PART.weight` over each head.
pub(super) fn head_norm(
    config: &ModelConfig,
    b: &mut Builder<'_>,
    layer: u32,
    part: &str,
    x: ValueId,
) -> Result<ValueId, PlanError> {
    let weight = b.vector(&name(layer, &format!("{part}.weight")), config.head_dim_k)?;
    Ok(b.head_norm(part, x, weight, config.norm_eps))
}

/// The projection `PART.weight` of a layer to `rows` values, with `PART.bias` where the file has one.
pub(super) fn project(
    b: &mut Builder<'_>,
    layer: u32,
    part: &str,
    x: ValueId,
    [rows, width]: [u32; 2],
) -> Result<ValueId, PlanError> {
    let weight = b.matrix(&name(layer, &format!("{part}.weight")), rows, width)?;
    let bias = b.optional_vector(&name(layer, &format!("{part}.bias")), rows)?;
    Ok(b.matmul(part, x, weight, bias))
}

/// Queries, keys and values from three projections.
pub(super) fn queries_keys_values(
    config: &ModelConfig,
    b: &mut Builder<'_>,
    layer: u32,
    x: ValueId,
) -> Result<[ValueId; 3], PlanError> {
    Ok([
        project(b, layer, "attn_q", x, [config.n_embd_q(), config.n_embd])?,
        project(b, layer, "attn_k", x, [config.n_embd_k(), config.n_embd])?,
        project(b, layer, "attn_v", x, [config.n_embd_v(), config.n_embd])?,
    ])
}

/// Rotation, the cache, attention and the projection of what it mixed.
pub(super) fn attend(
    config: &ModelConfig,
    b: &mut Builder<'_>,
    layer: u32,
    rope: &Rope<'_>,
    [q, k, v]: [ValueId; 3],
) -> Result<ValueId, PlanError> {
    let (factors, attrs, scalars) = rope.of(layer);
    b.rope_append([q, k, v], factors, attrs, scalars);
    let window = config.window_of(layer);
    let softcap = config.attention.softcap;
    let attrs = if window > 0 { attr::WINDOW } else { 0 } | if softcap.is_some() { attr::SOFTCAP } else { 0 };
    let scalars = AttentionScalars {
        n_head: config.n_head,
        n_head_kv: config.n_head_kv,
        head_dim: config.head_dim_k,
        max_blocks: 0,
        scale: config.attention.scale,
        softcap: softcap.unwrap_or(0.0),
        window,
        causal: 1,
    };
    let mixed = b.attention("attention", q, attrs, scalars);
    project(b, layer, "attn_output", mixed, [config.n_embd, config.n_embd_q()])
}

/// The gated feed-forward part; `glu` chooses its activation.
pub(super) fn feed_forward(
    config: &ModelConfig,
    b: &mut Builder<'_>,
    layer: u32,
    x: ValueId,
    glu: u64,
) -> Result<ValueId, PlanError> {
    let gate = project(b, layer, "ffn_gate", x, [config.n_ff, config.n_embd])?;
    let up = project(b, layer, "ffn_up", x, [config.n_ff, config.n_embd])?;
    let gated = b.glu("ffn_glu", gate, up, glu);
    project(b, layer, "ffn_down", gated, [config.n_embd, config.n_ff])
}

/// The tail: last norm and logits, from a head of its own or from the embedding `table` again.
pub(super) fn logits(
    config: &ModelConfig,
    b: &mut Builder<'_>,
    hidden: ValueId,
    table: TensorId,
) -> Result<ValueId, PlanError> {
    let last = b.begin_tail(hidden);
    let weight = b.vector("output_norm.weight", config.n_embd)?;
    let x = b.norm("output_norm", last, weight, config.norm_eps);
    let own = b.has("output.weight");
    let head = if own { b.matrix("output.weight", config.n_vocab, config.n_embd)? } else { table };
    let logits = b.matmul("logits", x, head, None);
    if let Some(softcap) = config.logit_softcap {
        b.cap(softcap);
    }
    Ok(logits)
}
