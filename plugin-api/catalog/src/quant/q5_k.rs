//! Q5_K: 256 values in 176 bytes; Q4_K with a fifth bit for each quant.

use super::float::scale;
use super::k_scales;

/// Decodes whole Q5_K blocks.
pub fn decode_q5_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<176>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        decode_q5_k_block(block, out);
    }
}

/// One Q5_K block: `d`, `dmin` (f16 each), 12 bytes of [`k_scales`], 32 bytes of fifth bits, 128 bytes
/// of low bits.
///
/// A value of sub-block `s` is `(d * scale[s]) * q - dmin * min[s]`, q in 0..32. Low bits come in four
/// runs of 32 bytes; the low halves of a run are one sub-block, the high halves the next. The fifth
/// bit of value `l` of sub-block `s` is bit `s` of byte `l` of the fifth bits.
pub fn decode_q5_k_block(block: &[u8; 176], out: &mut [f32; 256]) {
    let [d0, d1, m0, m1, rest @ ..] = block;
    let (d, dmin) = (scale([*d0, *d1]), scale([*m0, *m1]));
    let Some((scales, rest)) = rest.split_first_chunk::<12>() else { return };
    let Some((fifth, low)) = rest.split_first_chunk::<32>() else { return };
    let pairs = k_scales::unpack(scales);
    for (s, ((sub_scale, minimum), out)) in pairs.into_iter().zip(out.as_chunks_mut::<32>().0).enumerate() {
        let (step, minimum) = (d * f32::from(sub_scale), dmin * f32::from(minimum));
        let low = &low[32 * (s / 2)..][..32];
        for ((out, low), fifth) in out.iter_mut().zip(low).zip(fifth) {
            let quant = (low >> (4 * (s % 2)) & 0xf) | (fifth >> s & 1) << 4;
            *out = step * f32::from(quant) - minimum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_by_hand() {
        // d = 0.5, dmin = 0.25; sub-block s has scale s + 1 and minimum 3 s. At l = 9 the low bits are
        // 3 (even sub-blocks) and 12 (odd ones), with the fifth bit of sub-blocks 0, 3, 6 and 7.
        let pairs: [(u8, u8); 8] = std::array::from_fn(|s| (s as u8 + 1, 3 * s as u8));
        let mut block = [0u8; 176];
        block[..4].copy_from_slice(&[0x00, 0x38, 0x00, 0x34]);
        block[4..16].copy_from_slice(&k_scales::pack(&pairs));
        block[16 + 9] = 0b1100_1001;
        for run in 0..4 {
            block[48 + 32 * run + 9] = 0xc3;
        }
        let mut out = [9.0; 256];
        decode_q5_k_block(&block, &mut out);
        let quants = [19.0, 12.0, 3.0, 28.0, 3.0, 12.0, 19.0, 28.0];
        for (s, quant) in quants.into_iter().enumerate() {
            let minimum = 0.25 * 3.0 * s as f32;
            let out = &out[32 * s..32 * (s + 1)];
            assert_eq!(out[9], 0.5 * (s as f32 + 1.0) * quant - minimum, "sub-block {s}");
            assert_eq!(out.iter().filter(|&&v| v == -minimum).count(), 31, "sub-block {s}");
        }
        assert_eq!((out[9], out[96 + 9], out[224 + 9]), (9.5, 53.75, 106.75));
    }
}
