//! Q4_K: 256 values in 144 bytes, eight sub-blocks of 32 with a scale and a minimum each.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use super::{Decode, Pair, half_at};
use crate::simd::Simd;

/// `d`, `dmin` (f16 each), 12 bytes of packed 6-bit scales and minima, 128 bytes
/// of quants in four runs: the low halves of a run's 32 bytes are one sub-block,
/// the high halves the next.
#[derive(Clone, Copy)]
pub(crate) struct Q4K;

/// The scale and the (negated) minimum of each sub-block.
#[derive(Clone, Copy)]
pub(crate) struct SubBlocks {
    scale: [f32; 8],
    minimum: [f32; 8],
}

impl Decode for Q4K {
    const LEN: usize = 256;
    const BYTES: usize = 144;
    const RAGGED: bool = false;
    type Open<S: Simd> = SubBlocks;

    #[inline(always)]
    unsafe fn open<S: Simd>(block: *const u8) -> SubBlocks {
        let d = S::splat(half_at::<S>(block));
        let minus_dmin = S::splat(-half_at::<S>(block.add(2)));
        let word = |index: usize| u32::from_le(block.add(4 + 4 * index).cast::<u32>().read_unaligned());
        let (a, b, c) = (word(0), word(1), word(2));
        // Sub-blocks 0..4 have their six bits in a byte; 4..8 have four bits in
        // the last word and the two above them in the top of the first two.
        let low_scales = a & 0x3f3f_3f3f;
        let low_minima = b & 0x3f3f_3f3f;
        let high_scales = (c & 0x0f0f_0f0f) | (a >> 2 & 0x3030_3030);
        let high_minima = (c >> 4 & 0x0f0f_0f0f) | (b >> 2 & 0x3030_3030);
        let bytes = [low_scales, high_scales, low_minima, high_minima].map(u32::to_le);
        let bytes = bytes.as_ptr().cast::<u8>();
        let mut scaled = [0.0f32; 16];
        // Lanes 0..8 are scales and 8..16 minima; one vector of sixteen or two of eight.
        if S::LANES == 16 {
            let mut factor = [0.0f32; 16];
            S::store(factor.as_mut_ptr(), d);
            S::store_first(8, factor.as_mut_ptr().add(8), minus_dmin);
            let both = S::mul(S::to_f32(S::bytes(bytes)), S::load(factor.as_ptr()));
            S::store(scaled.as_mut_ptr(), both);
        } else {
            S::store(scaled.as_mut_ptr(), S::mul(S::to_f32(S::bytes(bytes)), d));
            S::store(scaled.as_mut_ptr().add(8), S::mul(S::to_f32(S::bytes(bytes.add(8))), minus_dmin));
        }
        let halves = scaled.as_chunks::<8>().0;
        SubBlocks { scale: halves[0], minimum: halves[1] }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, open: &SubBlocks, index: usize) -> Pair<S> {
        let per_run = 32 / S::LANES;
        let (run, at) = (index / per_run, index % per_run * S::LANES);
        let bytes = S::bytes(block.add(16 + 32 * run + at));
        let low = S::nibble(open.scale[2 * run], open.minimum[2 * run]);
        let high = S::nibble(open.scale[2 * run + 1], open.minimum[2 * run + 1]);
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
