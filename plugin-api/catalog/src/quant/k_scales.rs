//! The packed scales of a Q4_K or Q5_K block: eight 6-bit scales and eight 6-bit minima in 12 bytes.
//!
//! Bytes 0..4 hold the low six bits of scales 0..4 and, in their top two bits, the top of scales 4..8;
//! bytes 4..8 do the same for the minima; bytes 8..12 hold the low four bits of scale 4..8 (low half)
//! and of minimum 4..8 (high half).

/// Sub-blocks of 32 values in a 256-value block.
pub const SUB_BLOCKS: usize = 8;

/// The (scale, minimum) of each sub-block, 0..64 each.
pub fn unpack(packed: &[u8; 12]) -> [(u8, u8); SUB_BLOCKS] {
    let mut pairs = [(0, 0); SUB_BLOCKS];
    for j in 0..4 {
        pairs[j] = (packed[j] & 63, packed[j + 4] & 63);
        let nibbles = packed[j + 8];
        pairs[j + 4] = ((nibbles & 0xf) | (packed[j] >> 6 << 4), (nibbles >> 4) | (packed[j + 4] >> 6 << 4));
    }
    pairs
}

/// The inverse of [`unpack`]; bits above the sixth are dropped.
pub fn pack(pairs: &[(u8, u8); SUB_BLOCKS]) -> [u8; 12] {
    let mut packed = [0; 12];
    for j in 0..4 {
        let ((scale, min), (high_scale, high_min)) = (pairs[j], pairs[j + 4]);
        packed[j] = (scale & 63) | ((high_scale >> 4 & 3) << 6);
        packed[j + 4] = (min & 63) | ((high_min >> 4 & 3) << 6);
        packed[j + 8] = (high_scale & 0xf) | (high_min << 4);
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn unpack_by_hand() {
        // Scale 0 = 33 with the top bits of scale 4 = 0b10; scale 4's low bits 0b0101: 0b100101 = 37.
        // Minimum 0 = 7 with the top bits of minimum 4 = 0b01; its low bits 0b1100: 0b011100 = 28.
        let packed = [0x80 | 33, 0, 0, 0, 0x40 | 7, 0, 0, 0, 0xc5, 0, 0, 0];
        let pairs = unpack(&packed);
        assert_eq!((pairs[0], pairs[4], pairs[1]), ((33, 7), (37, 28), (0, 0)));
    }

    proptest! {
        #[test]
        fn pack_and_unpack_are_inverse(packed in any::<[u8; 12]>()) {
            prop_assert_eq!(pack(&unpack(&packed)), packed);
        }
    }
}
