//! Q8_0, Q4_0 and Q4_1: blocks of 32 values with one scale, quants of a byte or half of one.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use super::{Decode, Pair, heads};
use crate::simd::Simd;

/// `d` (f16), then 32 signed bytes; a value is `q * d`.
#[derive(Clone, Copy)]
pub(crate) struct Q8_0;

impl Decode for Q8_0 {
    const LEN: usize = 32;
    const BYTES: usize = 34;
    const SCALES: usize = 1;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        heads::first::<S, { Self::BYTES }>(blocks, count, out);
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        let d = S::splat(*scales);
        let first_at = 2 * index * S::LANES;
        let second_at = first_at + S::LANES;
        Pair {
            first_at,
            first: S::mul(S::load_i8(block.add(2 + first_at)), d),
            second_at,
            second: S::mul(S::load_i8(block.add(2 + second_at)), d),
        }
    }
}

/// `d` (f16), then 16 bytes of two quants; a value is `(q - 8) * d`.
/// Byte `j` holds value `j` in its low half and value `j + 16` in its high half.
#[derive(Clone, Copy)]
pub(crate) struct Q4_0;

impl Decode for Q4_0 {
    const LEN: usize = 32;
    const BYTES: usize = 18;
    const SCALES: usize = 1;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        heads::first::<S, { Self::BYTES }>(blocks, count, out);
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        let table = S::nibble(*scales, -8.0 * *scales);
        let at = index * S::LANES;
        let bytes = S::bytes(block.add(2 + at));
        Pair { first_at: at, first: S::low(table, bytes), second_at: 16 + at, second: S::high(table, bytes) }
    }
}

/// `d` and `m` (f16 each), then quants as in [`Q4_0`]; a value is `q * d + m`.
#[derive(Clone, Copy)]
pub(crate) struct Q4_1;

impl Decode for Q4_1 {
    const LEN: usize = 32;
    const BYTES: usize = 20;
    /// `d`, then `m`.
    const SCALES: usize = 2;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        heads::first_two::<S, { Self::BYTES }>(blocks, count, out);
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        let table = S::nibble(*scales, *scales.add(1));
        let at = index * S::LANES;
        let bytes = S::bytes(block.add(4 + at));
        Pair { first_at: at, first: S::low(table, bytes), second_at: 16 + at, second: S::high(table, bytes) }
    }
}
