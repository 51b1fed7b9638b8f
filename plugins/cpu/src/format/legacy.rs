//! Q8_0 and Q4_1: blocks of 32 values with one scale.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use super::{Decode, Pair, half_at};
use crate::simd::Simd;

/// `d` (f16), then 32 signed bytes; a value is `q * d`.
#[derive(Clone, Copy)]
pub(crate) struct Q8_0;

impl Decode for Q8_0 {
    const LEN: usize = 32;
    const BYTES: usize = 34;
    const RAGGED: bool = false;
    type Open<S: Simd> = S::F;

    #[inline(always)]
    unsafe fn open<S: Simd>(block: *const u8) -> S::F {
        S::splat(half_at::<S>(block))
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, d: &S::F, index: usize) -> Pair<S> {
        let first_at = 2 * index * S::LANES;
        let second_at = first_at + S::LANES;
        Pair {
            first_at,
            first: S::mul(S::load_i8(block.add(2 + first_at)), *d),
            second_at,
            second: S::mul(S::load_i8(block.add(2 + second_at)), *d),
        }
    }

    #[inline(always)]
    unsafe fn one(_run: *const u8, _index: usize) -> f32 {
        f32::NAN
    }
}

/// `d` and `m` (f16 each), then 16 bytes of two quants; a value is `q * d + m`.
/// Byte `j` holds value `j` in its low half and value `j + 16` in its high half.
#[derive(Clone, Copy)]
pub(crate) struct Q4_1;

impl Decode for Q4_1 {
    const LEN: usize = 32;
    const BYTES: usize = 20;
    const RAGGED: bool = false;
    type Open<S: Simd> = S::Nibble;

    #[inline(always)]
    unsafe fn open<S: Simd>(block: *const u8) -> S::Nibble {
        S::nibble(half_at::<S>(block), half_at::<S>(block.add(2)))
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, table: &S::Nibble, index: usize) -> Pair<S> {
        let at = index * S::LANES;
        let bytes = S::bytes(block.add(4 + at));
        Pair {
            first_at: at,
            first: S::low(*table, bytes),
            second_at: 16 + at,
            second: S::high(*table, bytes),
        }
    }

    #[inline(always)]
    unsafe fn one(_run: *const u8, _index: usize) -> f32 {
        f32::NAN
    }
}
