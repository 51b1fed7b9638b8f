//! Q4_K: 256 values in 144 bytes; eight sub-blocks of 32 with a 6-bit scale and minimum each.

use super::float::scale;
use super::k_scales;

/// Decodes whole Q4_K blocks.
pub fn decode_q4_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<144>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        decode_q4_k_block(block, out);
    }
}

/// One Q4_K block: `d`, `dmin` (f16 each), 12 bytes of [`k_scales`], 128 bytes of quants in 0..16.
///
/// A value of sub-block `s` is `(d * scale[s]) * q - dmin * min[s]`. Quants come in four runs of 32
/// bytes; the low halves of a run are one sub-block, the high halves the next.
pub fn decode_q4_k_block(block: &[u8; 144], out: &mut [f32; 256]) {
    let [d0, d1, m0, m1, rest @ ..] = block;
    let (d, dmin) = (scale([*d0, *d1]), scale([*m0, *m1]));
    let Some((scales, quants)) = rest.split_first_chunk::<12>() else { return };
    let pairs = k_scales::unpack(scales);
    let runs = quants.as_chunks::<32>().0.iter().zip(out.as_chunks_mut::<64>().0);
    for ((quants, out), pairs) in runs.zip(pairs.as_chunks::<2>().0) {
        let [(scale_low, min_low), (scale_high, min_high)] = *pairs;
        let (d_low, m_low) = (d * f32::from(scale_low), dmin * f32::from(min_low));
        let (d_high, m_high) = (d * f32::from(scale_high), dmin * f32::from(min_high));
        let (low, high) = out.split_at_mut(32);
        for ((low, high), quant) in low.iter_mut().zip(high).zip(quants) {
            *low = d_low * f32::from(quant & 0xf) - m_low;
            *high = d_high * f32::from(quant >> 4) - m_high;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_by_hand() {
        // d = 0.5, dmin = 0.25; sub-block s has scale s + 1 and minimum 2 s; quants of run r are
        // 3 in the low half and 12 in the high half at byte 0 of the run, else 0.
        let pairs: [(u8, u8); 8] = std::array::from_fn(|s| (s as u8 + 1, 2 * s as u8));
        let mut block = [0u8; 144];
        block[..4].copy_from_slice(&[0x00, 0x38, 0x00, 0x34]);
        block[4..16].copy_from_slice(&k_scales::pack(&pairs));
        for run in 0..4 {
            block[16 + 32 * run] = 0xc3;
        }
        let mut out = [0.0; 256];
        decode_q4_k_block(&block, &mut out);
        let expected_first = |s: usize| {
            let quant = if s.is_multiple_of(2) { 3.0 } else { 12.0 };
            0.5 * (s as f32 + 1.0) * quant - 0.25 * 2.0 * s as f32
        };
        for s in 0..8 {
            assert_eq!(out[32 * s], expected_first(s), "sub-block {s}");
            assert!(out[32 * s + 1..32 * (s + 1)].iter().all(|&v| v == -0.5 * s as f32), "sub-block {s}");
        }
        assert_eq!((out[0], out[32], out[224]), (1.5, 11.5, 44.5));
    }
}
