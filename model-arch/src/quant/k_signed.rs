//! Quantisers of the K formats that store one signed scale for each sub-block of 16: Q3_K and Q6_K.

use super::blocks_of_32::{extreme, stored};
use cajeta_catalog::quant::q3_k;
use half::f16;

/// Q3_K: quants in -4..4, scales of six bits.
pub(super) fn encode_q3_k(values: &[f32; 256]) -> [u8; 110] {
    let Signed { d, scales, quants } = Signed::fit(values, 4.0, 32.0);
    let mut block = [0; 110];
    for (run, quants) in quants.as_chunks::<32>().0.iter().enumerate() {
        for (l, quant) in quants.iter().enumerate() {
            block[l] |= (quant >> 2) << run;
            block[32 + 32 * (run / 4) + l] |= (quant & 3) << (2 * (run % 4));
        }
    }
    block[96..108].copy_from_slice(&q3_k::pack_scales(&scales));
    block[108..].copy_from_slice(&d);
    block
}

/// Q6_K: quants in -32..32, scales of eight bits.
pub(super) fn encode_q6_k(values: &[f32; 256]) -> [u8; 210] {
    let Signed { d, scales, quants } = Signed::fit(values, 32.0, 128.0);
    let mut block = [0; 210];
    for (run, quants) in quants.as_chunks::<32>().0.iter().enumerate() {
        // Where the catalog's decoder looks for value `l` of run `run` in half `half`.
        let (half, run) = (run / 4, run % 4);
        for (l, quant) in quants.iter().enumerate() {
            block[64 * half + 32 * (run % 2) + l] |= (quant & 0xf) << (4 * (run / 2));
            block[128 + 32 * half + l] |= (quant >> 4) << (2 * run);
        }
    }
    block[192..208].copy_from_slice(&scales.map(i8::cast_unsigned));
    block[208..].copy_from_slice(&d);
    block
}

/// A block before its bits are laid out.
struct Signed {
    d: [u8; 2],
    scales: [i8; 16],
    /// As stored: unsigned, the middle meaning 0.
    quants: [u8; 256],
}

impl Signed {
    /// In each sub-block the value of largest magnitude becomes `-middle`, so that the wider side of
    /// the range serves it; the scales are rounded so that the one of largest magnitude becomes
    /// `-scale_middle`, and the quants are chosen for the rounded ones.
    fn fit(values: &[f32; 256], middle: f32, scale_middle: f32) -> Signed {
        let (sub_blocks, _) = values.as_chunks::<16>();
        let wanted: [f32; 16] = std::array::from_fn(|s| extreme(&sub_blocks[s]) / -middle);
        let (d, per_scale) = stored(extreme(&wanted) / -scale_middle);
        let whole = |scale: f32| (scale * per_scale).round().clamp(-scale_middle, scale_middle - 1.0) as i8;
        let scales = wanted.map(whole);
        let mut quants = [0; 256];
        let places = quants.as_chunks_mut::<16>().0;
        for ((values, quants), scale) in sub_blocks.iter().zip(places).zip(scales) {
            let step = f16::from_le_bytes(d).to_f32() * f32::from(scale);
            let per_step = if step == 0.0 { 0.0 } else { step.recip() };
            let quant =
                |value: f32| ((value * per_step).round() + middle).clamp(0.0, 2.0 * middle - 1.0) as u8;
            *quants = values.map(quant);
        }
        Signed { d, scales, quants }
    }
}
