//! `llama`: pre-norm decoder, rotary pairs, grouped queries, SwiGLU.

use cajeta_catalog::op::attr;
use cajeta_catalog::scalars::{AttentionScalars, RopeAppendScalars};

use crate::config::{EMBEDDING_TENSOR, ModelConfig, RopeScaling};
use crate::gguf::GgufFile;
use crate::plan::{Builder, KvShape, Plan, PlanError, PlanProblem};

/// The plan of a `llama` model.
pub(super) fn build(config: &ModelConfig, file: &GgufFile) -> Result<Plan, PlanError> {
    let mut b = Builder::new(file);
    if config.head_dim_k != config.head_dim_v {
        return Err(b.fail(PlanProblem::HeadDims { k: config.head_dim_k, v: config.head_dim_v }));
    }
    let kv = KvShape { n_head_kv: config.n_head_kv, head_dim: config.head_dim_k };
    let (width, n_q, n_kv) = (config.n_embd, config.n_embd_q(), config.n_embd_k());
    let eps = config.norm_eps;

    let table = b.matrix(EMBEDDING_TENSOR, config.n_vocab, width)?;
    let factors = b.optional_vector("rope_freqs.weight", config.rope.dim / 2)?;
    let (rope_attrs, rope) = rope(config);
    let attention = AttentionScalars {
        n_head: config.n_head,
        n_head_kv: config.n_head_kv,
        head_dim: config.head_dim_k,
        max_blocks: 0,
        scale: 1.0 / (config.head_dim_k as f32).sqrt(),
        softcap: 0.0,
        window: 0,
        causal: 1,
    };

    let mut hidden = b.embed(table);
    for layer in 0..config.n_layer {
        b.begin_layer(layer, kv);
        let name = |part: &str| format!("blk.{layer}.{part}");

        let norm = b.vector(&name("attn_norm.weight"), width)?;
        let x = b.norm("attn_norm", hidden, norm, eps);
        let mut project = |part: &str, rows: u32| {
            let weight = b.matrix(&name(&format!("{part}.weight")), rows, width)?;
            let bias = b.optional_vector(&name(&format!("{part}.bias")), rows)?;
            Ok(b.matmul(part, x, weight, bias))
        };
        let q = project("attn_q", n_q)?;
        let k = project("attn_k", n_kv)?;
        let v = project("attn_v", n_kv)?;
        b.rope_append([q, k, v], factors, rope_attrs, rope);
        let mixed = b.attention("attention", q, 0, attention);
        let weight = b.matrix(&name("attn_output.weight"), width, n_q)?;
        let bias = b.optional_vector(&name("attn_output.bias"), width)?;
        let out = b.matmul("attn_output", mixed, weight, bias);
        hidden = b.add("attn_residual", hidden, out);

        let norm = b.vector(&name("ffn_norm.weight"), width)?;
        let x = b.norm("ffn_norm", hidden, norm, eps);
        let weight = b.matrix(&name("ffn_gate.weight"), config.n_ff, width)?;
        let gate = b.matmul("ffn_gate", x, weight, None);
        let weight = b.matrix(&name("ffn_up.weight"), config.n_ff, width)?;
        let up = b.matmul("ffn_up", x, weight, None);
        let glu = b.glu("ffn_glu", gate, up, 0);
        let weight = b.matrix(&name("ffn_down.weight"), width, config.n_ff)?;
        let down = b.matmul("ffn_down", glu, weight, None);
        hidden = b.add("ffn_residual", hidden, down);
    }

    let last = b.begin_tail(hidden);
    let norm = b.vector("output_norm.weight", width)?;
    let x = b.norm("output_norm", last, norm, eps);
    // Without a head of its own the model reads its embedding table again.
    let head = if b.has("output.weight") { b.matrix("output.weight", config.n_vocab, width)? } else { table };
    let logits = b.matmul("logits", x, head, None);
    b.finish(logits, &config.architecture)
}

fn rope(config: &ModelConfig) -> (u64, RopeAppendScalars) {
    let mut scalars = RopeAppendScalars {
        n_head: config.n_head,
        n_head_kv: config.n_head_kv,
        head_dim: config.head_dim_k,
        rope_dim: config.rope.dim,
        max_blocks: 0,
        original_context: 0,
        base: config.rope.base,
        freq_scale: 1.0,
        attn_factor: 1.0,
        ext_factor: 0.0,
        beta_fast: 0.0,
        beta_slow: 0.0,
    };
    let mut attrs = attr::ROPE_PAIRS;
    match config.rope.scaling {
        RopeScaling::None => {}
        RopeScaling::Linear { factor } => scalars.freq_scale = 1.0 / factor,
        RopeScaling::Yarn { factor, original_ctx } => {
            attrs |= attr::ROPE_YARN;
            scalars.freq_scale = 1.0 / factor;
            scalars.original_context = original_ctx;
            scalars.attn_factor = 1.0 + 0.1 * factor.max(1.0).ln();
            scalars.ext_factor = 1.0;
            // The ramp of the YaRN paper for models of this kind.
            (scalars.beta_fast, scalars.beta_slow) = (32.0, 1.0);
        }
    }
    (attrs, scalars)
}
