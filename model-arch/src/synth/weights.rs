//! The tensors of a synthetic model: names, shapes, formats, and what their values are.

use super::blocks::{matrix_part, numbers};
use super::mixture::Role;
use super::random::Random;
use super::recipe::fitting;
use super::rope_factors::rope_factors;
use super::{Shape, SynthOptions};
use crate::config::RopeScaling;
use crate::quant::Format;

/// A tensor to be made.
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) dims: Vec<u64>,
    pub(super) format: Format,
    /// The format the recipe names, for matrices.
    pub(super) wanted: Option<Format>,
    pub(super) content: Content,
}

/// What its values are.
pub(super) enum Content {
    /// Mean 0 and this standard deviation.
    Matrix { deviation: f32 },
    /// Near 1, F32.
    Norm,
    /// These, F32.
    Values(Vec<f32>),
}

/// Logits of the final norm's output should spread like a trained model's; with 1 the best two of
/// 128 thousand tokens would often be within rounding of each other.
const LOGIT_DEVIATION: f32 = 3.0;

/// All tensors in the usual order of a file.
pub(super) fn tensors(options: &SynthOptions) -> Vec<Tensor> {
    let Shape { n_layer, .. } = options.shape;
    let (n_vocab, n_embd) = (u64::from(options.shape.n_vocab), u64::from(options.shape.n_embd));
    let n_ff = u64::from(options.shape.n_ff);
    let head_dim = u64::from(options.shape.head_dim);
    let n_q = u64::from(options.shape.n_head) * head_dim;
    let n_kv = u64::from(options.shape.n_head_kv) * head_dim;
    let matrix = |name: String, row: u64, rows: u64, role: Role| {
        let wanted = options.recipe.format(role, &options.shape);
        let spread = if role == Role::Output { LOGIT_DEVIATION } else { 1.0 };
        let content = Content::Matrix { deviation: spread / (row as f32).sqrt() };
        Tensor { name, dims: vec![row, rows], format: fitting(wanted, row), wanted: Some(wanted), content }
    };
    let plain = |name: String, values: u64, content: Content| Tensor {
        name,
        dims: vec![values],
        format: Format::F32,
        wanted: None,
        content,
    };
    let tied = options.shape.tied;
    let embedding_role = if tied { Role::Output } else { Role::Other };
    let mut tensors = vec![matrix("token_embd.weight".into(), n_embd, n_vocab, embedding_role)];
    if let Some(factors) = options.shape.rope_factors {
        let values = rope_factors(factors, options.shape.rope_base, options.shape.head_dim);
        tensors.push(plain("rope_freqs.weight".into(), head_dim / 2, Content::Values(values)));
    }
    if let RopeScaling::LongRope { .. } = options.shape.rope_scaling {
        // Any divisors will do that grow with the wavelength, the long ones faster.
        for (name, step) in [("rope_factors_long.weight", 0.5), ("rope_factors_short.weight", 0.03)] {
            let values = (0..head_dim / 2).map(|i| 1.0 + step * i as f32).collect();
            tensors.push(plain(name.into(), head_dim / 2, Content::Values(values)));
        }
    }
    let architecture = options.architecture.as_str();
    let gemma = matches!(architecture, "gemma2" | "gemma3");
    for layer in 0..n_layer {
        let name = |part: &str| format!("blk.{layer}.{part}.weight");
        let norm = |part: &str, width: u64| plain(name(part), width, Content::Norm);
        tensors.push(norm("attn_norm", n_embd));
        if architecture == "phi3" {
            tensors.push(matrix(name("attn_qkv"), n_embd, n_q + 2 * n_kv, Role::FusedAttention));
        } else {
            tensors.extend([
                matrix(name("attn_q"), n_embd, n_q, Role::Other),
                matrix(name("attn_k"), n_embd, n_kv, Role::Other),
                matrix(name("attn_v"), n_embd, n_kv, Role::Value { layer }),
            ]);
        }
        if architecture == "qwen2" {
            for (part, width) in [("attn_q", n_q), ("attn_k", n_kv), ("attn_v", n_kv)] {
                let content = Content::Matrix { deviation: 0.5 };
                tensors.push(plain(format!("blk.{layer}.{part}.bias"), width, content));
            }
        }
        if matches!(architecture, "qwen3" | "gemma3") {
            tensors.extend([norm("attn_q_norm", head_dim), norm("attn_k_norm", head_dim)]);
        }
        tensors.push(matrix(name("attn_output"), n_q, n_embd, Role::AttentionOutput));
        if gemma {
            tensors.push(norm("post_attention_norm", n_embd));
        }
        tensors.push(norm("ffn_norm", n_embd));
        if architecture == "phi3" {
            tensors.push(matrix(name("ffn_up"), n_embd, 2 * n_ff, Role::Other));
        } else {
            tensors.extend([
                matrix(name("ffn_gate"), n_embd, n_ff, Role::Other),
                matrix(name("ffn_up"), n_embd, n_ff, Role::Other),
            ]);
        }
        tensors.push(matrix(name("ffn_down"), n_ff, n_embd, Role::Down { layer }));
        if gemma {
            tensors.push(norm("post_ffw_norm", n_embd));
        }
    }
    tensors.push(plain("output_norm.weight".into(), n_embd, Content::Norm));
    if !tied {
        tensors.push(matrix("output.weight".into(), n_embd, n_vocab, Role::Output));
    }
    tensors
}

impl Tensor {
    /// Makes the values from number `start` on, `values` of them, into `bytes`.
    pub(super) fn make(&self, random: &mut Random, start: usize, values: usize, bytes: &mut Vec<u8>) {
        match &self.content {
            Content::Values(all) => {
                let part = all.iter().skip(start).take(values);
                bytes.extend(part.flat_map(|value| value.to_le_bytes()));
            }
            Content::Norm => numbers(random, values, bytes, |value| (1.0 + 0.1 * value).to_le_bytes()),
            Content::Matrix { deviation } => matrix_part(self.format, *deviation, random, values, bytes),
        }
    }
}
