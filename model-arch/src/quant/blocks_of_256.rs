//! Quantisers of the K formats.

use super::blocks_of_32::stored;
use cajeta_catalog::quant::k_scales::{self, SUB_BLOCKS};
use half::f16;

/// Q4_K: each sub-block spans its own range, which always takes in zero; then scales and minima are
/// rounded to six bits, and the quants are chosen for the rounded ones.
pub(super) fn encode_q4_k(values: &[f32; 256]) -> [u8; 144] {
    let mut scales = [0f32; SUB_BLOCKS];
    let mut minima = [0f32; SUB_BLOCKS];
    let (runs, _) = values.as_chunks::<32>();
    for ((values, scale), minimum) in runs.iter().zip(&mut scales).zip(&mut minima) {
        // A minimum is stored unsigned and subtracted, so the range starts at zero or below.
        let smallest = values.iter().copied().fold(0f32, f32::min);
        let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max).max(smallest);
        (*scale, *minimum) = ((largest - smallest) / 15.0, -smallest);
    }
    let largest = |parts: &[f32; SUB_BLOCKS]| parts.iter().copied().fold(0f32, f32::max);
    let (d_bytes, per_scale) = stored(largest(&scales) / 63.0);
    let (m_bytes, per_minimum) = stored(largest(&minima) / 63.0);
    let six_bits = |part: f32| part.round().clamp(0.0, 63.0) as u8;
    let pairs: [(u8, u8); SUB_BLOCKS] =
        std::array::from_fn(|s| (six_bits(scales[s] * per_scale), six_bits(minima[s] * per_minimum)));

    let mut block = [0; 144];
    block[..2].copy_from_slice(&d_bytes);
    block[2..4].copy_from_slice(&m_bytes);
    block[4..16].copy_from_slice(&k_scales::pack(&pairs));
    let (d, dmin) = (f16::from_le_bytes(d_bytes).to_f32(), f16::from_le_bytes(m_bytes).to_f32());
    for (s, (values, (scale, minimum))) in runs.iter().zip(pairs).enumerate() {
        let (step, offset) = (d * f32::from(scale), dmin * f32::from(minimum));
        let per_step = if step == 0.0 { 0.0 } else { step.recip() };
        let quants = &mut block[16 + 32 * (s / 2)..][..32];
        for (quant, value) in quants.iter_mut().zip(values) {
            let nibble = ((value + offset) * per_step).round().clamp(0.0, 15.0) as u8;
            *quant |= nibble << (4 * (s % 2));
        }
    }
    block
}

/// Q6_K: in each sub-block the value of largest magnitude becomes -32, so that the wider side of the
/// range serves it; scales are rounded to eight bits, and the quants chosen for the rounded ones.
pub(super) fn encode_q6_k(values: &[f32; 256]) -> [u8; 210] {
    let (runs, _) = values.as_chunks::<16>();
    let mut scales = [0f32; 16];
    for (values, scale) in runs.iter().zip(&mut scales) {
        let extreme = values.iter().copied().fold(0f32, |a, b| if b.abs() > a.abs() { b } else { a });
        *scale = extreme / -32.0;
    }
    let extreme = scales.iter().copied().fold(0f32, |a, b| if b.abs() > a.abs() { b } else { a });
    let (d_bytes, per_scale) = stored(extreme / -128.0);
    let d = f16::from_le_bytes(d_bytes).to_f32();

    let mut block = [0; 210];
    for (s, (values, scale)) in runs.iter().zip(scales).enumerate() {
        let scale = (scale * per_scale).round() as i8;
        block[192 + s] = scale.cast_unsigned();
        let step = d * f32::from(scale);
        let per_step = if step == 0.0 { 0.0 } else { step.recip() };
        // Where the catalog's decoder looks for value `l` of run `run` in half `half`.
        let (half, run) = (s / 8, s % 8 / 2);
        for (i, value) in values.iter().enumerate() {
            let l = 16 * (s % 2) + i;
            let quant = ((value * per_step).round().clamp(-32.0, 31.0) as i8 + 32).cast_unsigned();
            block[64 * half + 32 * (run % 2) + l] |= (quant & 0xf) << (4 * (run / 2));
            block[128 + 32 * half + l] |= (quant >> 4) << (2 * run);
        }
    }
    block[208..].copy_from_slice(&d_bytes);
    block
}
