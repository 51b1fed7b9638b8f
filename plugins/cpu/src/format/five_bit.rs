//! Q5_0 and Q5_1: blocks of 32 values whose fifth bits stand in a word of their own.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use super::{Decode, Pair, heads};
use crate::simd::Simd;

/// `d` (f16), 4 bytes of fifth bits, 16 bytes of low bits; a value is `(q - 16) * d`.
/// Low bits stand as in [`Q4_0`](super::Q4_0); bit `i` of the word belongs to value `i`.
#[derive(Clone, Copy)]
pub(crate) struct Q5_0;

impl Decode for Q5_0 {
    const LEN: usize = 32;
    const BYTES: usize = 22;
    const SCALES: usize = 1;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        heads::first::<S, { Self::BYTES }>(blocks, count, out);
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        five_bits(block.add(2), *scales, -16.0 * *scales, index)
    }
}

/// `d` and `m` (f16 each), then as [`Q5_0`]; a value is `q * d + m`.
#[derive(Clone, Copy)]
pub(crate) struct Q5_1;

impl Decode for Q5_1 {
    const LEN: usize = 32;
    const BYTES: usize = 24;
    /// `d`, then `m`.
    const SCALES: usize = 2;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        heads::first_two::<S, { Self::BYTES }>(blocks, count, out);
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        five_bits(block.add(4), *scales, *scales.add(1), index)
    }
}

/// `q * d + m` of a pair; `quants` is the word of fifth bits and the low bits behind it.
#[inline(always)]
unsafe fn five_bits<S: Simd>(quants: *const u8, d: f32, m: f32, index: usize) -> Pair<S> {
    let fifth = u32::from_le(quants.cast::<u32>().read_unaligned());
    let at = index * S::LANES;
    let bytes = S::bytes(quants.add(4 + at));
    let table = S::nibble(d, m);
    let top = S::splat(16.0 * d);
    Pair {
        first_at: at,
        first: S::add_where(S::lanes(fifth >> at), S::low(table, bytes), top),
        second_at: 16 + at,
        second: S::add_where(S::lanes(fifth >> (16 + at)), S::high(table, bytes), top),
    }
}
