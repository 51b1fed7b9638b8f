//! Plain numbers: F32, F16 and BF16, little-endian.

use half::{bf16, f16};

/// F32: the value itself.
pub fn decode_f32(bytes: &[u8], out: &mut [f32]) {
    for (value, out) in bytes.as_chunks::<4>().0.iter().zip(out) {
        *out = f32::from_le_bytes(*value);
    }
}

/// F16: IEEE half precision, subnormals kept.
pub fn decode_f16(bytes: &[u8], out: &mut [f32]) {
    for (value, out) in bytes.as_chunks::<2>().0.iter().zip(out) {
        *out = f16::from_le_bytes(*value).to_f32();
    }
}

/// BF16: the upper half of an F32.
pub fn decode_bf16(bytes: &[u8], out: &mut [f32]) {
    for (value, out) in bytes.as_chunks::<2>().0.iter().zip(out) {
        *out = bf16::from_le_bytes(*value).to_f32();
    }
}

/// The half-precision scale at the start of `bytes`, which every block format here opens or closes with.
pub(super) fn scale(bytes: [u8; 2]) -> f32 {
    f16::from_le_bytes(bytes).to_f32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bit_patterns() {
        let mut out = [0.0; 3];
        decode_f16(&[0x00, 0x3c, 0x01, 0x00, 0x00, 0xc1], &mut out);
        assert_eq!(out, [1.0, 5.960_464_5e-8, -2.5]);
        decode_bf16(&[0x80, 0x3f, 0x49, 0x40, 0x00, 0xc0], &mut out);
        assert_eq!(out, [1.0, 3.140_625, -2.0]);
        decode_f32(&[0, 0, 0x80, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40], &mut out);
        assert_eq!(out, [1.0, 0.0, 2.0]);
    }
}
