//! The 32-value formats of five-bit quants: Q5_0 and Q5_1.
//!
//! Both hold the low four bits of their quants as the four-bit formats do (byte `j` has value `j` low
//! and value `j + 16` high) and the fifth bits in one little-endian word: bit `i` belongs to value `i`.

use super::float::scale;

/// Q5_0: scale `d` (f16), 4 bytes of fifth bits, 16 bytes of low bits; a value is `(q - 16) * d` with
/// `q` in 0..32.
pub fn decode_q5_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<22>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        decode_q5_0_block(block, out);
    }
}

/// One Q5_0 block.
pub fn decode_q5_0_block(block: &[u8; 22], out: &mut [f32; 32]) {
    let [d0, d1, h0, h1, h2, h3, low @ ..] = block;
    let d = scale([*d0, *d1]);
    let quants = quants([*h0, *h1, *h2, *h3], low);
    for (out, quant) in out.iter_mut().zip(quants) {
        *out = f32::from(quant.cast_signed() - 16) * d;
    }
}

/// Q5_1: scale `d` and offset `m` (f16 each), 4 bytes of fifth bits, 16 bytes of low bits; a value is
/// `q * d + m` with `q` in 0..32.
pub fn decode_q5_1(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<24>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        decode_q5_1_block(block, out);
    }
}

/// One Q5_1 block.
pub fn decode_q5_1_block(block: &[u8; 24], out: &mut [f32; 32]) {
    let [d0, d1, m0, m1, h0, h1, h2, h3, low @ ..] = block;
    let (d, m) = (scale([*d0, *d1]), scale([*m0, *m1]));
    let quants = quants([*h0, *h1, *h2, *h3], low);
    for (out, quant) in out.iter_mut().zip(quants) {
        *out = f32::from(quant) * d + m;
    }
}

/// The quants of a block, 0..32 each.
fn quants(fifth_bits: [u8; 4], low: &[u8; 16]) -> [u8; 32] {
    let fifth_bits = u32::from_le_bytes(fifth_bits);
    std::array::from_fn(|i| {
        let nibble = if i < 16 { low[i] & 0xf } else { low[i - 16] >> 4 };
        nibble | ((fifth_bits >> i & 1) << 4) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q5_0_by_hand() {
        // d = 0.25; fifth bits of values 0, 9, 16 and 31; low bits: byte 0 = 0x0f, byte 9 = 0x21,
        // byte 15 = 0xf3, else 0. A value with no bits at all is -16.
        let mut block = [0u8; 22];
        block[..6].copy_from_slice(&[0x00, 0x34, 0x01, 0x02, 0x01, 0x80]);
        (block[6], block[6 + 9], block[6 + 15]) = (0x0f, 0x21, 0xf3);
        let mut out = [9.0; 32];
        decode_q5_0_block(&block, &mut out);
        assert_eq!((out[0], out[16]), (3.75, 0.0), "quants 31 and 16");
        assert_eq!((out[9], out[25]), (0.25, -3.5), "quants 17 and 2");
        assert_eq!((out[15], out[31]), (-3.25, 3.75), "quants 3 and 31");
        assert_eq!(out.iter().filter(|&&v| v == -4.0).count(), 26);
    }

    #[test]
    fn q5_1_by_hand() {
        // d = 0.5, m = -1.5; fifth bits of values 7 and 24; byte 7 = 0xa5, byte 8 = 0x10, else 0.
        let mut block = [0u8; 24];
        block[..8].copy_from_slice(&[0x00, 0x38, 0x00, 0xbe, 0x80, 0x00, 0x00, 0x01]);
        (block[8 + 7], block[8 + 8]) = (0xa5, 0x10);
        let mut out = [9.0; 32];
        decode_q5_1_block(&block, &mut out);
        assert_eq!((out[7], out[23]), (9.0, 3.5), "quants 21 and 10");
        assert_eq!((out[8], out[24]), (-1.5, 7.0), "quants 0 and 17");
        assert_eq!(out.iter().filter(|&&v| v == -1.5).count(), 29);
    }
}
