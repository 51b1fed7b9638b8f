//! The formats whose four-bit quants are places in a table of uneven steps: IQ4_NL and IQ4_XS.

use super::float::scale;

/// What each quant means, in steps of the scale: finer near zero, where most weights are. The zero
/// itself is not among them; 1 is the nearest.
pub const LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// IQ4_NL: scale `d` (f16), then 16 bytes of two quants; a value is `d * LEVELS[q]`. Byte `j` holds
/// value `j` in its low half and value `j + 16` in its high half.
pub fn decode_iq4_nl(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<18>().0.iter().zip(out.as_chunks_mut::<32>().0) {
        decode_iq4_nl_block(block, out);
    }
}

/// One IQ4_NL block.
pub fn decode_iq4_nl_block(block: &[u8; 18], out: &mut [f32; 32]) {
    let [d0, d1, quants @ ..] = block;
    levels(scale([*d0, *d1]), quants, out);
}

/// IQ4_XS: 256 values in 136 bytes, eight sub-blocks of 32 with a signed 6-bit scale each.
pub fn decode_iq4_xs(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in bytes.as_chunks::<136>().0.iter().zip(out.as_chunks_mut::<256>().0) {
        decode_iq4_xs_block(block, out);
    }
}

/// One IQ4_XS block: `d` (f16), 6 bytes of [`unpack_scales`], then each sub-block's quants as in
/// IQ4_NL; a value is `(d * scale) * LEVELS[q]`.
pub fn decode_iq4_xs_block(block: &[u8; 136], out: &mut [f32; 256]) {
    let [d0, d1, rest @ ..] = block;
    let d = scale([*d0, *d1]);
    let Some((packed, quants)) = rest.split_first_chunk::<6>() else { return };
    let sub_blocks = quants.as_chunks::<16>().0.iter().zip(out.as_chunks_mut::<32>().0);
    for ((quants, out), sub_scale) in sub_blocks.zip(unpack_scales(packed)) {
        levels(d * f32::from(sub_scale), quants, out);
    }
}

/// The scale of each IQ4_XS sub-block, -32..32: two bytes (a little-endian word) hold the top two bits
/// of scale `s` at bit `2 s`, four more hold the low four bits, scale `2 i` in the low half of byte
/// `i`. What is stored is 32 more than what is meant.
pub fn unpack_scales(packed: &[u8; 6]) -> [i8; 8] {
    let [top0, top1, low @ ..] = packed;
    let top = u16::from_le_bytes([*top0, *top1]);
    std::array::from_fn(|s| {
        let low = low[s / 2] >> (4 * (s % 2)) & 0xf;
        (low | ((top >> (2 * s) & 3) as u8) << 4).cast_signed() - 32
    })
}

/// The inverse of [`unpack_scales`], for scales in -32..32; bits above the sixth are dropped.
pub fn pack_scales(scales: &[i8; 8]) -> [u8; 6] {
    let mut packed = [0; 6];
    for (s, scale) in scales.iter().enumerate() {
        let stored = scale.wrapping_add(32).cast_unsigned();
        packed[s / 4] |= (stored >> 4 & 3) << (2 * (s % 4));
        packed[2 + s / 2] |= (stored & 0xf) << (4 * (s % 2));
    }
    packed
}

/// 32 values of one scale.
fn levels(step: f32, quants: &[u8; 16], out: &mut [f32; 32]) {
    let (low, high) = out.split_at_mut(16);
    for ((low, high), quant) in low.iter_mut().zip(high).zip(quants) {
        *low = step * f32::from(LEVELS[usize::from(quant & 0xf)]);
        *high = step * f32::from(LEVELS[usize::from(quant >> 4)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn iq4_nl_by_hand() {
        // d = 0.5; byte j holds place j low and place 15 - j high.
        let mut block = [0u8; 18];
        block[..2].copy_from_slice(&[0x00, 0x38]);
        for j in 0..16 {
            block[2 + j] = (j | (15 - j) << 4) as u8;
        }
        let mut out = [9.0; 32];
        decode_iq4_nl_block(&block, &mut out);
        let table = [
            -63.5, -52.0, -41.5, -32.5, -24.5, -17.5, -11.0, -5.0, 0.5, 6.5, 12.5, 19.0, 26.5, 34.5, 44.5,
            56.5,
        ];
        for (j, value) in table.into_iter().enumerate() {
            assert_eq!((out[j], out[31 - j]), (value, value), "place {j}");
        }
    }

    #[test]
    fn iq4_xs_by_hand() {
        // d = 0.25. Stored scales: 0 -> 0b10_0101 (5), 3 -> 0b11_1111 (31), 6 -> 0b01_0000 (-16), the
        // others 0 (-32). Every quant is place 8 (level 1) but byte 2 of sub-block 3: places 15 and 0.
        let mut block = [0x88u8; 136];
        block[..8].copy_from_slice(&[0x00, 0x34, 0b1100_0010, 0b0001_0000, 0x05, 0xf0, 0x00, 0x00]);
        block[8 + 16 * 3 + 2] = 0x0f;
        let mut out = [9.0; 256];
        decode_iq4_xs_block(&block, &mut out);
        let scales = [5.0, -32.0, -32.0, 31.0, -32.0, -32.0, -16.0, -32.0];
        for (s, scale) in scales.into_iter().enumerate() {
            let usual = out[32 * s..32 * (s + 1)].iter().filter(|&&v| v == 0.25 * scale).count();
            assert_eq!(usual, if s == 3 { 30 } else { 32 }, "sub-block {s}");
        }
        assert_eq!((out[96 + 2], out[96 + 18]), (7.75 * 113.0, 7.75 * -127.0));
    }

    proptest! {
        #[test]
        fn pack_and_unpack_are_inverse(packed in any::<[u8; 6]>()) {
            prop_assert_eq!(pack_scales(&unpack_scales(&packed)), packed);
        }
    }
}
