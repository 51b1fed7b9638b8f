//! Q5_K: 256 values in 176 bytes; Q4_K with a fifth bit for each quant.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use super::{Decode, Pair, Q4K, half_at, k_scales};
use crate::simd::Simd;

/// `d`, `dmin` (f16 each), 12 bytes of packed 6-bit scales and minima, 32 bytes of
/// fifth bits, 128 bytes of low bits laid out as Q4_K's quants. The fifth bit of
/// value `l` of sub-block `s` is bit `s` of byte `l` of the fifth bits.
#[derive(Clone, Copy)]
pub(crate) struct Q5K;

impl Decode for Q5K {
    const LEN: usize = 256;
    const BYTES: usize = 176;
    /// As Q4_K's.
    const SCALES: usize = Q4K::SCALES;

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
        let low = S::bytes(block.add(48 + 32 * run + at));
        let fifth = S::bytes(block.add(16 + at));
        let sub_block = 2 * run;
        let scale = |sub_block: usize| (*scales.add(sub_block), *scales.add(8 + sub_block));
        let ((d, m), (next_d, next_m)) = (scale(sub_block), scale(sub_block + 1));
        let first = S::low(S::nibble(d, m), low);
        let second = S::high(S::nibble(next_d, next_m), low);
        let bit = sub_block as u32;
        Pair {
            first_at: 64 * run + at,
            first: S::add_where(S::bit_set(fifth, bit), first, S::splat(16.0 * d)),
            second_at: 64 * run + 32 + at,
            second: S::add_where(S::bit_set(fifth, bit + 1), second, S::splat(16.0 * next_d)),
        }
    }
}
