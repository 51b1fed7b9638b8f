//! The 32-value formats whose quants are whole bytes or halves of them: Q8_0, Q4_0 and Q4_1.

use super::float::scale;

/// Q8_0: scale `d` (f16), then 32 signed bytes `q`; a value is `d * q`.
pub fn decode_q8_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<34>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        decode_q8_0_block(block, out);
    }
}

/// One Q8_0 block.
pub fn decode_q8_0_block(block: &[u8; 34], out: &mut [f32; 32]) {
    let [d0, d1, quants @ ..] = block;
    let d = scale([*d0, *d1]);
    for (out, quant) in out.iter_mut().zip(quants) {
        *out = f32::from(quant.cast_signed()) * d;
    }
}

/// Q4_0: scale `d` (f16), then 16 bytes of two quants `q` in 0..16; a value is `(q - 8) * d`. Byte `j`
/// holds value `j` in its low half and value `j + 16` in its high half.
pub fn decode_q4_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<18>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        decode_q4_0_block(block, out);
    }
}

/// One Q4_0 block.
pub fn decode_q4_0_block(block: &[u8; 18], out: &mut [f32; 32]) {
    let [d0, d1, quants @ ..] = block;
    let d = scale([*d0, *d1]);
    let (low, high) = out.split_at_mut(16);
    for ((low, high), quant) in low.iter_mut().zip(high).zip(quants) {
        *low = f32::from((quant & 0xf).cast_signed() - 8) * d;
        *high = f32::from((quant >> 4).cast_signed() - 8) * d;
    }
}

/// Q4_1: scale `d` and offset `m` (f16 each), then 16 bytes of two quants `q` in 0..16; a value is
/// `q * d + m`. Byte `j` holds value `j` in its low half and value `j + 16` in its high half.
pub fn decode_q4_1(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<20>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        decode_q4_1_block(block, out);
    }
}

/// One Q4_1 block.
pub fn decode_q4_1_block(block: &[u8; 20], out: &mut [f32; 32]) {
    let [d0, d1, m0, m1, quants @ ..] = block;
    let (d, m) = (scale([*d0, *d1]), scale([*m0, *m1]));
    let (low, high) = out.split_at_mut(16);
    for ((low, high), quant) in low.iter_mut().zip(high).zip(quants) {
        *low = f32::from(quant & 0xf) * d + m;
        *high = f32::from(quant >> 4) * d + m;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn q8_0_by_hand() {
        // d = 0.5; quants 0, 1, -1, 127, -128, then zeros.
        let mut block = [0u8; 34];
        block[..7].copy_from_slice(&[0x00, 0x38, 0, 1, 0xff, 127, 0x80]);
        let mut out = [9.0; 32];
        decode_q8_0_block(&block, &mut out);
        assert_eq!(out[..6], [0.0, 0.5, -0.5, 63.5, -64.0, 0.0]);
        assert!(out[5..].iter().all(|&v| v == 0.0));
    }

    #[test]
    fn q4_0_by_hand() {
        // d = -0.5; byte 0 = 0xf0 holds quants 0 and 15, byte 3 = 0x97 holds 7 and 9, the rest 8 and 8.
        let mut block = [0x88u8; 18];
        block[..3].copy_from_slice(&[0x00, 0xb8, 0xf0]);
        block[5] = 0x97;
        let mut out = [9.0; 32];
        decode_q4_0_block(&block, &mut out);
        assert_eq!((out[0], out[16], out[3], out[19]), (4.0, -3.5, 0.5, -0.5));
        assert_eq!(out.iter().filter(|&&v| v == 0.0).count(), 28);
    }

    #[test]
    fn q4_1_by_hand() {
        // d = 0.25, m = -2; byte 0 = 0xf1 holds quants 1 and 15, byte 15 = 0x80 holds 0 and 8.
        let mut block = [0u8; 20];
        block[..5].copy_from_slice(&[0x00, 0x34, 0x00, 0xc0, 0xf1]);
        block[19] = 0x80;
        let mut out = [0.0; 32];
        decode_q4_1_block(&block, &mut out);
        assert_eq!((out[0], out[16], out[15], out[31]), (-1.75, 1.75, -2.0, 0.0));
        assert!(out[1..15].iter().chain(&out[17..31]).all(|&v| v == -2.0));
    }
}
