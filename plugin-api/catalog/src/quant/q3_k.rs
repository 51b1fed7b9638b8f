//! Q3_K: 256 values in 110 bytes; sixteen sub-blocks of 16 with a signed 6-bit scale each.

use super::float::scale;

/// Decodes whole Q3_K blocks.
pub fn decode_q3_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<110>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        decode_q3_k_block(block, out);
    }
}

/// One Q3_K block: 32 bytes of third bits, 64 bytes of low bits, 12 bytes of [`unpack_scales`], `d` (f16).
///
/// A value is `(d * scale) * (q - 4)`, q in 0..8. Value `l + 32 r` of half `h` (l in 0..32, run r in
/// 0..4, each half 128 values) has its low two bits at bit `2 r` of low byte `32 h + l` and its third
/// bit at bit `4 h + r` of third-bit byte `l`.
pub fn decode_q3_k_block(block: &[u8; 110], out: &mut [f32; 256]) {
    let (third, rest) = block.split_at(32);
    let (low, rest) = rest.split_at(64);
    let Some((packed, d)) = rest.split_first_chunk::<12>() else { return };
    let d = scale([d[0], d[1]]);
    for (s, (sub_scale, out)) in unpack_scales(packed).iter().zip(out.as_chunks_mut::<16>().0).enumerate() {
        let step = d * f32::from(*sub_scale);
        let (half, run, start) = (s / 8, s % 8 / 2, 16 * (s % 2));
        let (low, third) = (&low[32 * half + start..][..16], &third[start..][..16]);
        for ((out, low), third) in out.iter_mut().zip(low).zip(third) {
            let quant = (low >> (2 * run) & 3) | (third >> (4 * half + run) & 1) << 2;
            *out = step * f32::from(quant.cast_signed() - 4);
        }
    }
}

/// The scale of each sub-block, -32..32. Bytes 0..8 hold the low four bits of scales 0..8 (low half)
/// and 8..16 (high half); byte `8 + i` holds the top two bits of scales `i`, `i + 4`, `i + 8` and
/// `i + 12`, lowest first. What is stored is 32 more than what is meant.
pub fn unpack_scales(packed: &[u8; 12]) -> [i8; 16] {
    std::array::from_fn(|s| {
        let low = if s < 8 { packed[s] & 0xf } else { packed[s - 8] >> 4 };
        let top = packed[8 + s % 4] >> (2 * (s / 4)) & 3;
        (low | top << 4).cast_signed() - 32
    })
}

/// The inverse of [`unpack_scales`], for scales in -32..32; bits above the sixth are dropped.
pub fn pack_scales(scales: &[i8; 16]) -> [u8; 12] {
    let mut packed = [0; 12];
    for (s, scale) in scales.iter().enumerate() {
        let stored = scale.wrapping_add(32).cast_unsigned();
        packed[s % 8] |= (stored & 0xf) << (4 * (s / 8));
        packed[8 + s % 4] |= (stored >> 4 & 3) << (2 * (s / 4));
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scales_by_hand() {
        // Stored scale 1 = 0b10_0101 = 37, scale 9 = 0b01_1100 = 28, scale 13 = 0b11_0000 = 48: byte 1
        // has the low bits of 1 and 9, byte 5 those of 13 high, and byte 9 the top bits of all three.
        let mut packed = [0u8; 12];
        (packed[1], packed[9]) = (0xc5, 0b1101_0010);
        let scales = unpack_scales(&packed);
        assert_eq!((scales[1], scales[9], scales[13], scales[5]), (5, -4, 16, -32));
        assert_eq!(scales.iter().filter(|&&scale| scale == -32).count(), 13);
    }

    #[test]
    fn one_block_by_hand() {
        // d = 0.25; sub-block s has scale 2 s - 16. Every quant is 0 (value -4) but those of the bytes
        // set below.
        let scales: [i8; 16] = std::array::from_fn(|s| 2 * s as i8 - 16);
        let mut block = [0u8; 110];
        block[96..108].copy_from_slice(&pack_scales(&scales));
        block[108..].copy_from_slice(&[0x00, 0x34]);
        // First half, l = 5: low bits 0, 1, 2, 3 of the runs; third bits of runs 0 and 3, and of run 1
        // of the second half, whose low bits at l = 5 are 0.
        block[32 + 5] = 0b1110_0100;
        block[5] = 0b0010_1001;
        // Second half, run 3, l = 31: quant 7.
        block[32 + 32 + 31] = 0b1100_0000;
        block[31] = 0b1000_0000;
        let mut out = [9.0; 256];
        decode_q3_k_block(&block, &mut out);
        let at = |s: usize, quant: i32| 0.25 * (2.0 * s as f32 - 16.0) * (quant - 4) as f32;
        assert_eq!((out[5], out[37], out[69], out[101]), (at(0, 4), at(2, 1), at(4, 2), at(6, 7)));
        assert_eq!((out[128 + 32 + 5], out[255]), (at(10, 4), at(15, 7)));
        assert_eq!((out[0], out[101], out[255]), (16.0, -3.0, 10.5));
        let changed = (0..256).filter(|i| out[*i] != at(i / 16, 0)).count();
        assert_eq!(changed, 6);
    }

    proptest! {
        #[test]
        fn pack_and_unpack_are_inverse(packed in any::<[u8; 12]>()) {
            prop_assert_eq!(pack_scales(&unpack_scales(&packed)), packed);
        }
    }
}
