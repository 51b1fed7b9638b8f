//! The packed scales that several 256-value formats share, unpacked a word at a time.
#![allow(unsafe_op_in_unsafe_fn)] // each function's Safety section is the proof of its body

/// Eight 6-bit scales and eight 6-bit minima of a Q4_K or Q5_K block, a byte each,
/// from their twelve bytes.
///
/// # Safety
/// `packed` has twelve readable bytes.
#[inline(always)]
pub(super) unsafe fn scales_and_minima(packed: *const u8) -> [u64; 2] {
    let word = |index: usize| u32::from_le(packed.add(4 * index).cast::<u32>().read_unaligned());
    let (a, b, c) = (word(0), word(1), word(2));
    // Sub-blocks 0..4 have their six bits in a byte; 4..8 have four bits in
    // the last word and the two above them in the top of the first two.
    let low_scales = a & 0x3f3f_3f3f;
    let low_minima = b & 0x3f3f_3f3f;
    let high_scales = (c & 0x0f0f_0f0f) | (a >> 2 & 0x3030_3030);
    let high_minima = (c >> 4 & 0x0f0f_0f0f) | (b >> 2 & 0x3030_3030);
    [eight(low_scales, high_scales), eight(low_minima, high_minima)]
}

/// Sixteen signed 6-bit scales of a Q3_K block, a byte each, from their twelve bytes.
///
/// # Safety
/// `packed` has twelve readable bytes.
#[inline(always)]
pub(super) unsafe fn sixteen_signed(packed: *const u8) -> [u64; 2] {
    // Low four bits: the halves of the first eight bytes. Top two: the quarters of the rest.
    let low = u64::from_le(packed.cast::<u64>().read_unaligned());
    let top = u32::from_le(packed.add(8).cast::<u32>().read_unaligned());
    let quarter = |place: u32| top >> (2 * place) & 0x0303_0303;
    let first = low & HALVES | eight(quarter(0), quarter(1)) << 4;
    let second = low >> 4 & HALVES | eight(quarter(2), quarter(3)) << 4;
    [signed_six(first), signed_six(second)]
}

const HALVES: u64 = 0x0f0f_0f0f_0f0f_0f0f;

fn eight(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Takes 32 from each of eight bytes below 64, leaving signed bytes.
#[inline(always)]
pub(super) fn signed_six(bytes: u64) -> u64 {
    // With its top bit set no byte borrows from the next.
    ((bytes | 0x8080_8080_8080_8080) - 0x2020_2020_2020_2020) ^ 0x8080_8080_8080_8080
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_plugin_api::catalog::quant::{k_scales, q3_k};

    #[test]
    fn they_are_the_catalogs() {
        for seed in 1..4096u64 {
            let mut packed = [0u8; 12];
            packed[..8].copy_from_slice(&seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes());
            packed[8..].copy_from_slice(&(seed as u32).wrapping_mul(0x85eb_ca6b).to_le_bytes());
            // SAFETY: the array has twelve bytes.
            let (pairs, signed) =
                unsafe { (scales_and_minima(packed.as_ptr()), sixteen_signed(packed.as_ptr())) };
            let [scales, minima] = pairs.map(u64::to_le_bytes);
            let expected = k_scales::unpack(&packed);
            assert_eq!(scales, expected.map(|pair| pair.0), "{packed:02x?}");
            assert_eq!(minima, expected.map(|pair| pair.1), "{packed:02x?}");
            let signed: Vec<i8> =
                signed.iter().flat_map(|word| word.to_le_bytes()).map(u8::cast_signed).collect();
            assert_eq!(signed, q3_k::unpack_scales(&packed), "{packed:02x?}");
        }
    }
}
