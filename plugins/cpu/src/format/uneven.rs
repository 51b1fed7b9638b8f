//! The formats whose four-bit quants are places in a table of uneven steps: IQ4_NL, IQ4_XS, MXFP4.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use cajeta_plugin_api::catalog::quant::{iq4, mxfp4};

use super::k_scales::signed_six;
use super::{Decode, Pair, half_at, heads};
use crate::simd::Simd;

const IQ4: [f32; 16] = floats(iq4::LEVELS);
const MXFP4: [f32; 16] = floats(mxfp4::LEVELS);

const fn floats(levels: [i8; 16]) -> [f32; 16] {
    let mut floats = [0.0; 16];
    let mut i = 0;
    while i < 16 {
        floats[i] = levels[i] as f32;
        i += 1;
    }
    floats
}

/// `d` (f16), then 16 bytes of two quants as in [`Q4_0`](super::Q4_0); a value is `IQ4[q] * d`.
#[derive(Clone, Copy)]
pub(crate) struct Iq4Nl;

impl Decode for Iq4Nl {
    const LEN: usize = 32;
    const BYTES: usize = 18;
    const SCALES: usize = 1;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        heads::first::<S, { Self::BYTES }>(blocks, count, out);
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        looked_up(&IQ4, block.add(2), *scales, index * S::LANES)
    }
}

/// 256 values: `d` (f16), 2 bytes of top and 4 of low scale bits, then eight
/// sub-blocks of 32 quants as in [`Iq4Nl`].
#[derive(Clone, Copy)]
pub(crate) struct Iq4Xs;

impl Decode for Iq4Xs {
    const LEN: usize = 256;
    const BYTES: usize = 136;
    const SCALES: usize = 8;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        for index in 0..count {
            let block = blocks.add(index * Self::BYTES);
            let top = u16::from_le(block.add(2).cast::<u16>().read_unaligned());
            let low = u32::from_le(block.add(4).cast::<u32>().read_unaligned());
            let six = spread_halves(low) | spread_quarters(top) << 4;
            // As many bytes as the widest vector reads; a whole vector is written,
            // whose rest is written again later or never read.
            let bytes = [signed_six(six).to_le(), 0];
            let d = S::splat(half_at::<S>(block));
            S::store(out.add(index * Self::SCALES), S::mul(S::load_i8(bytes.as_ptr().cast()), d));
        }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        let per_sub_block = 16 / S::LANES;
        let (sub_block, at) = (index / per_sub_block, index % per_sub_block * S::LANES);
        let pair = looked_up::<S>(&IQ4, block.add(8 + 16 * sub_block), *scales.add(sub_block), at);
        let (first_at, second_at) = (32 * sub_block + pair.first_at, 32 * sub_block + pair.second_at);
        Pair { first_at, second_at, ..pair }
    }
}

/// The exponent byte, then 16 bytes of two quants as in [`Iq4Nl`]; a value is
/// `MXFP4[q] * mxfp4::scale(exponent)`.
#[derive(Clone, Copy)]
pub(crate) struct Mxfp4;

impl Decode for Mxfp4 {
    const LEN: usize = 32;
    const BYTES: usize = 17;
    const SCALES: usize = 1;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        for index in 0..count {
            *out.add(index) = mxfp4::scale(*blocks.add(index * Self::BYTES));
        }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        looked_up(&MXFP4, block.add(1), *scales, index * S::LANES)
    }
}

/// Bytes `at..at + LANES` of 16, each half a place in the table.
#[inline(always)]
unsafe fn looked_up<S: Simd>(levels: &[f32; 16], quants: *const u8, d: f32, at: usize) -> Pair<S> {
    let table = S::levels(levels, d);
    let bytes = S::bytes(quants.add(at));
    Pair {
        first_at: at,
        first: S::level_low(table, bytes),
        second_at: 16 + at,
        second: S::level_high(table, bytes),
    }
}

/// The eight halves of four bytes, a byte each.
#[inline(always)]
fn spread_halves(packed: u32) -> u64 {
    let mut word = u64::from(packed);
    word = (word | word << 16) & 0x0000_ffff_0000_ffff;
    word = (word | word << 8) & 0x00ff_00ff_00ff_00ff;
    (word | word << 4) & 0x0f0f_0f0f_0f0f_0f0f
}

/// The eight quarters of two bytes, a byte each.
#[inline(always)]
fn spread_quarters(packed: u16) -> u64 {
    let mut word = u64::from(packed);
    word = (word | word << 24) & 0x0000_00ff_0000_00ff;
    word = (word | word << 12) & 0x000f_000f_000f_000f;
    (word | word << 6) & 0x0303_0303_0303_0303
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_of_iq4_xs_are_the_catalogs() {
        for seed in 0..4096u64 {
            let packed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            let packed: [u8; 6] = std::array::from_fn(|i| packed[i]);
            let (top, low) = packed.split_at(2);
            let low = spread_halves(u32::from_le_bytes([low[0], low[1], low[2], low[3]]));
            let six = low | spread_quarters(u16::from_le_bytes([top[0], top[1]])) << 4;
            let got = signed_six(six).to_le_bytes().map(u8::cast_signed);
            assert_eq!(got, iq4::unpack_scales(&packed), "{packed:02x?}");
        }
    }
}
