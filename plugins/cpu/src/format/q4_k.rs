//! Q4_K: 256 values in 144 bytes, eight sub-blocks of 32 with a scale and a minimum each.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use super::{Decode, Pair, half_at};
use crate::simd::Simd;

/// `d`, `dmin` (f16 each), 12 bytes of packed 6-bit scales and minima, 128 bytes
/// of quants in four runs: the low halves of a run's 32 bytes are one sub-block,
/// the high halves the next.
#[derive(Clone, Copy)]
pub(crate) struct Q4K;

impl Decode for Q4K {
    const LEN: usize = 256;
    const BYTES: usize = 144;
    /// Eight scales, then eight negated minima.
    const SCALES: usize = 16;
    const RAGGED: bool = false;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        for index in 0..count {
            let block = blocks.add(index * Self::BYTES);
            let word = |index: usize| u32::from_le(block.add(4 + 4 * index).cast::<u32>().read_unaligned());
            let (a, b, c) = (word(0), word(1), word(2));
            // Sub-blocks 0..4 have their six bits in a byte; 4..8 have four bits in
            // the last word and the two above them in the top of the first two.
            let low_scales = a & 0x3f3f_3f3f;
            let low_minima = b & 0x3f3f_3f3f;
            let high_scales = (c & 0x0f0f_0f0f) | (a >> 2 & 0x3030_3030);
            let high_minima = (c >> 4 & 0x0f0f_0f0f) | (b >> 2 & 0x3030_3030);
            let eight = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
            S::scaled_bytes(
                [eight(low_scales, high_scales), eight(low_minima, high_minima)],
                [half_at::<S>(block), -half_at::<S>(block.add(2))],
                out.add(index * Self::SCALES),
            );
        }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        let per_run = 32 / S::LANES;
        let (run, at) = (index / per_run, index % per_run * S::LANES);
        let bytes = S::bytes(block.add(16 + 32 * run + at));
        let low = S::nibble(*scales.add(2 * run), *scales.add(8 + 2 * run));
        let high = S::nibble(*scales.add(2 * run + 1), *scales.add(8 + 2 * run + 1));
        Pair {
            first_at: 64 * run + at,
            first: S::low(low, bytes),
            second_at: 64 * run + 32 + at,
            second: S::high(high, bytes),
        }
    }

    #[inline(always)]
    unsafe fn one(_run: *const u8, _index: usize) -> f32 {
        f32::NAN
    }
}
