//! Quantisers of the K formats that store a scale and a minimum for each sub-block: Q2_K, Q4_K, Q5_K.

use super::blocks_of_32::stored;
use cajeta_catalog::quant::k_scales::{self, SUB_BLOCKS};
use half::f16;

/// Q2_K: sub-blocks of 16, quants in 0..4, scales and minima of four bits.
pub(super) fn encode_q2_k(values: &[f32; 256]) -> [u8; 84] {
    let Ranges { head, pairs, quants } = Ranges::<16>::fit(values, 3.0, 15.0);
    let mut block = [0; 84];
    for (packed, (scale, minimum)) in block.iter_mut().zip(pairs) {
        *packed = scale | minimum << 4;
    }
    // Runs of 32 values, four to a half, share the half's 32 bytes.
    for (run, quants) in quants.as_chunks::<32>().0.iter().enumerate() {
        let bytes = &mut block[16 + 32 * (run / 4)..][..32];
        bytes.iter_mut().zip(quants).for_each(|(byte, quant)| *byte |= quant << (2 * (run % 4)));
    }
    block[80..].copy_from_slice(&head);
    block
}

/// Q4_K: sub-blocks of 32, quants in 0..16, scales and minima of six bits.
pub(super) fn encode_q4_k(values: &[f32; 256]) -> [u8; 144] {
    let Ranges { head, pairs, quants } = Ranges::<SUB_BLOCKS>::fit(values, 15.0, 63.0);
    let mut block = [0; 144];
    block[..4].copy_from_slice(&head);
    block[4..16].copy_from_slice(&k_scales::pack(&pairs));
    put_low_bits(&quants, &mut block[16..]);
    block
}

/// Q5_K: as Q4_K with quants in 0..32.
pub(super) fn encode_q5_k(values: &[f32; 256]) -> [u8; 176] {
    let Ranges { head, pairs, quants } = Ranges::<SUB_BLOCKS>::fit(values, 31.0, 63.0);
    let mut block = [0; 176];
    block[..4].copy_from_slice(&head);
    block[4..16].copy_from_slice(&k_scales::pack(&pairs));
    for (s, quants) in quants.as_chunks::<32>().0.iter().enumerate() {
        block[16..48].iter_mut().zip(quants).for_each(|(byte, quant)| *byte |= (quant >> 4) << s);
    }
    put_low_bits(&quants, &mut block[48..]);
    block
}

/// The low four bits of all quants: sub-blocks `2 r` and `2 r + 1` share the 32 bytes of run `r`.
fn put_low_bits(quants: &[u8; 256], bytes: &mut [u8]) {
    for (s, quants) in quants.as_chunks::<32>().0.iter().enumerate() {
        let bytes = &mut bytes[32 * (s / 2)..][..32];
        bytes.iter_mut().zip(quants).for_each(|(byte, quant)| *byte |= (quant & 0xf) << (4 * (s % 2)));
    }
}

/// A block of `S` sub-blocks, before its bits are laid out.
struct Ranges<const S: usize> {
    /// `d`, then `dmin`.
    head: [u8; 4],
    /// The scale and minimum of each sub-block.
    pairs: [(u8, u8); S],
    quants: [u8; 256],
}

impl<const S: usize> Ranges<S> {
    /// Each sub-block spans its own range, which always takes in zero, in `top` steps; then scales and
    /// minima are rounded to whole numbers up to `largest_part`, and the quants are chosen for the
    /// rounded ones.
    fn fit(values: &[f32; 256], top: f32, largest_part: f32) -> Self {
        let sub_blocks = || values.chunks_exact(256 / S);
        let mut scales = [0f32; S];
        let mut minima = [0f32; S];
        for (values, (scale, minimum)) in sub_blocks().zip(scales.iter_mut().zip(&mut minima)) {
            // A minimum is stored unsigned and subtracted, so the range starts at zero or below.
            let smallest = values.iter().copied().fold(0f32, f32::min);
            let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max).max(smallest);
            (*scale, *minimum) = ((largest - smallest) / top, -smallest);
        }
        let largest = |parts: &[f32; S]| parts.iter().copied().fold(0f32, f32::max);
        let ([d0, d1], per_scale) = stored(largest(&scales) / largest_part);
        let ([m0, m1], per_minimum) = stored(largest(&minima) / largest_part);
        let whole = |part: f32| part.round().clamp(0.0, largest_part) as u8;
        let pairs: [(u8, u8); S] =
            std::array::from_fn(|s| (whole(scales[s] * per_scale), whole(minima[s] * per_minimum)));

        let (d, dmin) = (f16::from_le_bytes([d0, d1]).to_f32(), f16::from_le_bytes([m0, m1]).to_f32());
        let mut quants = [0; 256];
        let places = quants.chunks_exact_mut(256 / S);
        for ((values, quants), (scale, minimum)) in sub_blocks().zip(places).zip(pairs) {
            let (step, offset) = (d * f32::from(scale), dmin * f32::from(minimum));
            let per_step = if step == 0.0 { 0.0 } else { step.recip() };
            for (quant, value) in quants.iter_mut().zip(values) {
                *quant = ((value + offset) * per_step).round().clamp(0.0, top) as u8;
            }
        }
        Ranges { head: [d0, d1, m0, m1], pairs, quants }
    }
}
