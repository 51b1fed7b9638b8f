//! Q2_K: 256 values in 84 bytes; sixteen sub-blocks of 16 with a 4-bit scale and minimum each.

use super::float::scale;

/// Decodes whole Q2_K blocks.
pub fn decode_q2_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<84>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        decode_q2_k_block(block, out);
    }
}

/// One Q2_K block: 16 bytes of scales, 64 bytes of quants in 0..4, `d` and `dmin` (f16 each).
///
/// Scale byte `s` holds the scale of sub-block `s` in its low half and its minimum in the high half;
/// a value is `(d * scale) * q - dmin * minimum`. Each half of 128 values takes 32 bytes of quants:
/// value `l + 32 r` (l in 0..32, run r in 0..4) stands at bit `2 r` of byte `l`.
pub fn decode_q2_k_block(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scales, rest) = block.split_at(16);
    let (quants, head) = rest.split_at(64);
    let (d, dmin) = (scale([head[0], head[1]]), scale([head[2], head[3]]));
    for (s, (&packed, out)) in scales.iter().zip(out.as_chunks_mut::<16>().0).enumerate() {
        let (step, minimum) = (d * f32::from(packed & 0xf), dmin * f32::from(packed >> 4));
        let (half, run) = (s / 8, s % 8 / 2);
        let quants = &quants[32 * half + 16 * (s % 2)..][..16];
        for (out, quant) in out.iter_mut().zip(quants) {
            *out = step * f32::from(quant >> (2 * run) & 3) - minimum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_by_hand() {
        // d = 0.5, dmin = 0.25; sub-block s has scale s and minimum 15 - s. Quants are 0 but at byte 3
        // of the first half (0b11_10_01_00, one each of the runs) and byte 20 of the second (the same).
        let mut block = [0u8; 84];
        for (s, packed) in block[..16].iter_mut().enumerate() {
            *packed = (s | (15 - s) << 4) as u8;
        }
        block[16 + 3] = 0b1110_0100;
        block[16 + 32 + 20] = 0b1110_0100;
        block[80..].copy_from_slice(&[0x00, 0x38, 0x00, 0x34]);
        let mut out = [9.0; 256];
        decode_q2_k_block(&block, &mut out);
        let at = |s: usize, quant: f32| 0.5 * s as f32 * quant - 0.25 * (15 - s) as f32;
        for run in 0..4 {
            assert_eq!(out[32 * run + 3], at(2 * run, run as f32), "first half, run {run}");
            assert_eq!(out[128 + 32 * run + 20], at(9 + 2 * run, run as f32), "second half, run {run}");
        }
        // Run 3 of the second half, where the largest value of this block stands: 0.5 * 15 * 3.
        assert_eq!((out[128 + 96 + 20], out[0], out[255]), (22.5, -3.75, 0.0));
        let untouched = (0..256).filter(|i| out[*i] == at(i / 16, 0.0)).count();
        assert_eq!(untouched, 256 - 6, "six values have a quant above 0");
    }
}
