//! Q4_K: 256 values in 144 bytes, eight sub-blocks of 32 with a scale and a minimum each.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use super::{Decode, Pair, half_at, k_scales};
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

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        for index in 0..count {
            let block = blocks.add(index * Self::BYTES);
            S::scaled_bytes(
                k_scales::scales_and_minima(block.add(4)),
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
}
