//! The tensors of a synthetic model, and the random blocks they are made of.
//!
//! Quantised blocks are drawn directly rather than quantised from numbers: uniform quants under
//! scales that give the wanted spread. Scales vary from block to block, so a kernel that took the
//! wrong one would be noticed.

use super::random::Random;
use super::recipe::{Role, fitting};
use super::rope_factors::rope_factors;
use super::{Shape, SynthOptions};
use crate::config::RopeScaling;
use crate::quant::Format;
use cajeta_catalog::quant::k_scales;
use half::{bf16, f16};

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
        let wanted = options.recipe.format(role, n_layer);
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
        let sensitive = Role::Sensitive { layer };
        tensors.push(norm("attn_norm", n_embd));
        if architecture == "phi3" {
            tensors.push(matrix(name("attn_qkv"), n_embd, n_q + 2 * n_kv, Role::Other));
        } else {
            tensors.extend([
                matrix(name("attn_q"), n_embd, n_q, Role::Other),
                matrix(name("attn_k"), n_embd, n_kv, Role::Other),
                matrix(name("attn_v"), n_embd, n_kv, sensitive),
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
        tensors.push(matrix(name("attn_output"), n_q, n_embd, Role::Other));
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
        tensors.push(matrix(name("ffn_down"), n_ff, n_embd, sensitive));
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

fn matrix_part(format: Format, deviation: f32, random: &mut Random, values: usize, bytes: &mut Vec<u8>) {
    match format {
        Format::F16 => numbers(random, values, bytes, |value| f16::from_f32(deviation * value).to_le_bytes()),
        Format::BF16 => {
            numbers(random, values, bytes, |value| bf16::from_f32(deviation * value).to_le_bytes())
        }
        Format::Q8_0 => blocks(format, values, bytes, |block| q8_0(deviation, random, block)),
        Format::Q4_1 => blocks(format, values, bytes, |block| q4_1(deviation, random, block)),
        Format::Q4_K => blocks(format, values, bytes, |block| q4_k(deviation, random, block)),
        Format::Q6_K => blocks(format, values, bytes, |block| q6_k(deviation, random, block)),
        // Recipes name no other format than these and F32.
        _ => numbers(random, values, bytes, |value| (deviation * value).to_le_bytes()),
    }
}

fn numbers<const N: usize>(
    random: &mut Random,
    values: usize,
    bytes: &mut Vec<u8>,
    encode: impl Fn(f32) -> [u8; N],
) {
    let end = bytes.len() + values * N;
    while bytes.len() < end {
        let [first, second] = random.pair();
        bytes.extend_from_slice(&encode(first));
        bytes.extend_from_slice(&encode(second));
    }
    bytes.truncate(end);
}

fn blocks(format: Format, values: usize, bytes: &mut Vec<u8>, mut make: impl FnMut(&mut [u8])) {
    let start = bytes.len();
    bytes.resize(start + values / format.block_len() * format.block_bytes(), 0);
    bytes[start..].chunks_exact_mut(format.block_bytes()).for_each(&mut make);
}

/// Scales vary by a quarter both ways.
fn varied(random: &mut Random, scale: f32) -> [u8; 2] {
    f16::from_f32(scale * random.between(0.75, 1.25)).to_le_bytes()
}

/// Standard deviation of a number uniform on `0..count`.
fn uniform_deviation(count: f32) -> f32 {
    ((count * count - 1.0) / 12.0).sqrt()
}

fn q8_0(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    for quant in &mut block[2..] {
        // Quantisers never write -128, and kernels may count on that.
        *quant = if *quant == 0x80 { 0 } else { *quant };
    }
    block[..2].copy_from_slice(&varied(random, deviation / uniform_deviation(255.0)));
}

fn q4_1(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    let d = varied(random, deviation / uniform_deviation(16.0));
    // The middle of the quants becomes 0.
    let minimum = f16::from_f32(f16::from_le_bytes(d).to_f32() * -7.5);
    block[..2].copy_from_slice(&d);
    block[2..4].copy_from_slice(&minimum.to_le_bytes());
}

fn q4_k(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    let mut pairs = [(0, 0); k_scales::SUB_BLOCKS];
    let word = random.word().to_le_bytes();
    for (pair, byte) in pairs.iter_mut().zip(word) {
        // Scales from 32 to 61; a minimum near its scale puts the middle of the quants near 0.
        let scale = 32 + (byte >> 3) % 30;
        *pair = (scale, scale - 2 + (byte & 3) + (byte >> 2 & 1));
    }
    // On average a scale is 45.7.
    let d = varied(random, deviation / (45.7 * uniform_deviation(16.0)));
    let dmin = f16::from_f32(f16::from_le_bytes(d).to_f32() * 7.5);
    block[..2].copy_from_slice(&d);
    block[2..4].copy_from_slice(&dmin.to_le_bytes());
    block[4..16].copy_from_slice(&k_scales::pack(&pairs));
}

fn q6_k(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    for scale in &mut block[192..208] {
        // Magnitudes from 64 to 127, either sign.
        let magnitude = (64 + (*scale & 63)).cast_signed();
        *scale = if *scale & 64 == 0 { magnitude } else { -magnitude }.cast_unsigned();
    }
    // On average a magnitude is 95.5.
    block[208..].copy_from_slice(&varied(random, deviation / (95.5 * uniform_deviation(64.0))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::decode_row;

    #[test]
    fn every_format_has_the_spread_asked_for() {
        for format in
            [Format::F32, Format::F16, Format::BF16, Format::Q8_0, Format::Q4_1, Format::Q4_K, Format::Q6_K]
        {
            for row in [256f32, 14_336.0] {
                let deviation = row.sqrt().recip();
                let values = 256 * 200;
                let mut bytes = Vec::new();
                matrix_part(format, deviation, &mut Random::new(3, 1, 4), values, &mut bytes);
                let mut decoded = vec![0f32; values];
                decode_row(format, &bytes, &mut decoded).unwrap();
                let mean = decoded.iter().map(|&v| f64::from(v)).sum::<f64>() / values as f64;
                let square = decoded.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / values as f64;
                let spread = square.sqrt() / f64::from(deviation);
                assert!((spread - 1.0).abs() < 0.06, "{format} {row}: {spread}");
                assert!(mean.abs() < 0.03 * f64::from(deviation), "{format} {row}: mean {mean}");
            }
        }
    }
}
