//! Q6_K: 256 values in 210 bytes; sixteen sub-blocks of 16 with a signed 8-bit scale each.

use super::float::scale;

/// Decodes whole Q6_K blocks.
pub fn decode_q6_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<210>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        decode_q6_k_block(block, out);
    }
}

/// One Q6_K block: 128 bytes of low quant bits, 64 bytes of high bits, 16 scales (i8), `d` (f16).
///
/// A value is `(d * scale) * (q - 32)`, q in 0..64. Each half of 128 values takes 64 low bytes, 32
/// high bytes and 8 scales: value `l + 32 r` (l in 0..32, run r in 0..4) has its low four bits in
/// low byte `l + 32 (r % 2)`, half `r / 2`, and its high two bits at bit `2 r` of high byte `l`.
pub fn decode_q6_k_block(block: &[u8; 210], out: &mut [f32; 256]) {
    let (low, rest) = block.split_at(128);
    let (high, rest) = rest.split_at(64);
    let (scales, d) = rest.split_at(16);
    let d = scale([d[0], d[1]]);
    for half in 0..2 {
        let low = &low[64 * half..64 * (half + 1)];
        let high = &high[32 * half..32 * (half + 1)];
        let scales = &scales[8 * half..8 * (half + 1)];
        let out = &mut out[128 * half..128 * (half + 1)];
        for run in 0..4 {
            let low = &low[32 * (run % 2)..32 * (run % 2) + 32];
            let out = &mut out[32 * run..32 * (run + 1)];
            for l in 0..32 {
                let nibble = if run < 2 { low[l] & 0xf } else { low[l] >> 4 };
                let quant = (nibble | (high[l] >> (2 * run) & 3) << 4).cast_signed() - 32;
                let sub_scale = f32::from(scales[2 * run + l / 16].cast_signed());
                out[l] = d * sub_scale * f32::from(quant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_block_by_hand() {
        // d = 0.125, scale of sub-block s = s - 8; every quant 0 (value -32) but four of them.
        let mut block = [0u8; 210];
        for s in 0..16 {
            block[192 + s] = (s as i8 - 8).cast_unsigned();
        }
        block[208..].copy_from_slice(&[0x00, 0x30]);
        // Half 0, l = 5: low byte 5 = 0xa3, high byte 5 = 0b11_10_01_00.
        block[5] = 0xa3;
        block[128 + 5] = 0b1110_0100;
        // Half 1, run 3, l = 17: low byte 64 + 32 + 17 high half = 0xf, high bits 3: quant 63.
        block[64 + 32 + 17] = 0xf0;
        block[128 + 32 + 17] = 0b1100_0000;
        let mut out = [0.0; 256];
        decode_q6_k_block(&block, &mut out);
        let at = |sub_block: i32, quant: i32| 0.125 * (sub_block - 8) as f32 * (quant - 32) as f32;
        assert_eq!(out[5], at(0, 0x03));
        assert_eq!(out[32 + 5], at(2, 0x10));
        assert_eq!(out[64 + 5], at(4, 0x2a));
        assert_eq!(out[96 + 5], at(6, 0x30));
        assert_eq!(out[128 + 96 + 17], at(15, 63));
        assert_eq!((out[0], out[255]), (32.0, -28.0));
    }
}
