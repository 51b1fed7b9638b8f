//! Q2_K: 256 values in 84 bytes, sixteen sub-blocks of 16 with a scale and a minimum each.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use super::{Decode, Pair, half_at};
use crate::simd::Simd;

/// 16 bytes of scales (low half) and minima (high half), 64 bytes of quants, `d`
/// and `dmin` (f16 each). Value `l + 32 r` of a half stands at bit `2 r` of the
/// half's byte `l`.
#[derive(Clone, Copy)]
pub(crate) struct Q2K;

impl Decode for Q2K {
    const LEN: usize = 256;
    const BYTES: usize = 84;
    /// Sixteen scales, then sixteen negated minima.
    const SCALES: usize = 32;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        for index in 0..count {
            let block = blocks.add(index * Self::BYTES);
            let out = out.add(index * Self::SCALES);
            let (d, minimum) =
                (S::splat(half_at::<S>(block.add(80))), S::splat(-half_at::<S>(block.add(82))));
            let mut at = 0;
            while at < 16 {
                let packed = S::bytes(block.add(at));
                S::store(out.add(at), S::mul(S::to_f32(S::and(packed, 15)), d));
                S::store(out.add(16 + at), S::mul(S::to_f32(S::shr::<4>(packed)), minimum));
                at += S::LANES;
            }
        }
    }

    /// Pairs run over (half, lane group, two of the four runs): the two share their bytes.
    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        let place = TwoRuns::of::<S>(index);
        let quants = S::shr_by(S::bytes(block.add(16 + 32 * place.half + place.at)), 2 * place.run as u32);
        let (first, second) = (scales.add(place.sub_block(0)), scales.add(place.sub_block(1)));
        Pair {
            first_at: place.value(0),
            first: S::quarter(*first, *first.add(16), quants),
            second_at: place.value(1),
            second: S::next_quarter(*second, *second.add(16), quants),
        }
    }
}

/// Where the pairs of Q2_K and Q3_K stand: runs `run` and `run + 1` (even and odd)
/// of a half, from value `at` of each.
#[derive(Clone, Copy)]
pub(super) struct TwoRuns {
    pub(super) half: usize,
    pub(super) run: usize,
    pub(super) at: usize,
}

impl TwoRuns {
    #[inline(always)]
    pub(super) fn of<S: Simd>(index: usize) -> TwoRuns {
        let groups = 32 / S::LANES;
        TwoRuns { half: index / (2 * groups), run: index % 2 * 2, at: index % (2 * groups) / 2 * S::LANES }
    }

    /// The sub-block of run `run + next`.
    #[inline(always)]
    pub(super) fn sub_block(self, next: usize) -> usize {
        8 * self.half + 2 * (self.run + next) + self.at / 16
    }

    /// The block's value at which run `run + next` is met.
    #[inline(always)]
    pub(super) fn value(self, next: usize) -> usize {
        128 * self.half + 32 * (self.run + next) + self.at
    }
}
