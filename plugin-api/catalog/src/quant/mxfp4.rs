//! MXFP4: 32 values in 17 bytes; four-bit floats under a shared power of two (OCP Microscaling 1.0).

/// What each quant means, in half units: a sign, two exponent bits and one mantissa bit. Halving goes
/// into [`scale`], so that the table is whole numbers.
pub const LEVELS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Decodes whole MXFP4 blocks.
pub fn decode_mxfp4(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<17>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        decode_mxfp4_block(block, out);
    }
}

/// One MXFP4 block: the exponent byte, then 16 bytes of two quants; a value is
/// `LEVELS[q] * scale(exponent)`. Byte `j` holds value `j` in its low half and value `j + 16` in its
/// high half.
pub fn decode_mxfp4_block(block: &[u8; 17], out: &mut [f32; 32]) {
    let [exponent, quants @ ..] = block;
    let step = scale(*exponent);
    let (low, high) = out.split_at_mut(16);
    for ((low, high), quant) in low.iter_mut().zip(high).zip(quants) {
        *low = f32::from(LEVELS[usize::from(quant & 0xf)]) * step;
        *high = f32::from(LEVELS[usize::from(quant >> 4)]) * step;
    }
}

/// Half of the power of two that an exponent byte stands for: `2^(exponent - 128)`, which f32 holds for
/// every byte, the lowest two as subnormals. The standard reserves 255 for NaN; files hold weights,
/// and GGML reads it as the next power, so this does too.
pub fn scale(exponent: u8) -> f32 {
    let bits = match exponent {
        0 | 1 => 0x0020_0000 << exponent,
        _ => (u32::from(exponent) - 1) << 23,
    };
    f32::from_bits(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_powers_of_two() {
        for exponent in 0..=255u8 {
            let expected = (f64::from(exponent) - 128.0).exp2();
            assert_eq!(f64::from(scale(exponent)), expected, "exponent {exponent}");
        }
    }

    #[test]
    fn one_block_by_hand() {
        // Exponent 128 means 2, so half units of 1: byte j holds quant j low and 15 - j high.
        let mut block = [128u8; 17];
        for j in 0..16 {
            block[1 + j] = (j | (15 - j) << 4) as u8;
        }
        let mut out = [9.0; 32];
        decode_mxfp4_block(&block, &mut out);
        let values =
            [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0];
        for (j, value) in values.into_iter().enumerate() {
            assert_eq!((out[j], out[31 - j]), (value, value), "quant {j}");
        }
        // Exponent 126 means a half: the largest value is 6 halves.
        block[0] = 126;
        decode_mxfp4_block(&block, &mut out);
        assert_eq!((out[1], out[7], out[15]), (0.25, 3.0, -3.0));
    }
}
