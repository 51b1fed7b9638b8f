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
    const SCALES: usize = 1;
    const RAGGED: bool = false;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        let mut at = 0;
        while at + 8 <= count {
            some_d::<S, 8>(blocks.add(at * Self::BYTES), out.add(at));
            at += 8;
        }
        if at + 4 <= count {
            some_d::<S, 4>(blocks.add(at * Self::BYTES), out.add(at));
            at += 4;
        }
        // The rest may repeat blocks of the group before it.
        if at < count && count >= 4 {
            some_d::<S, 4>(blocks.add((count - 4) * Self::BYTES), out.add(count - 4));
            return;
        }
        while at < count {
            *out.add(at) = half_at::<S>(blocks.add(at * Self::BYTES));
            at += 1;
        }
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
    /// `d`, then `m`.
    const SCALES: usize = 2;
    const RAGGED: bool = false;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        let mut at = 0;
        while at + 8 <= count && S::LANES == 16 {
            some_d_m::<S, 8>(blocks.add(at * Self::BYTES), out.add(2 * at));
            at += 8;
        }
        while at + 4 <= count {
            some_d_m::<S, 4>(blocks.add(at * Self::BYTES), out.add(2 * at));
            at += 4;
        }
        // The rest may repeat blocks of the group before it.
        if at < count && count >= 4 {
            some_d_m::<S, 4>(blocks.add((count - 4) * Self::BYTES), out.add(2 * (count - 4)));
            return;
        }
        while at < count {
            let block = blocks.add(at * Self::BYTES);
            *out.add(2 * at) = half_at::<S>(block);
            *out.add(2 * at + 1) = half_at::<S>(block.add(2));
            at += 1;
        }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        let table = S::nibble(*scales, *scales.add(1));
        let at = index * S::LANES;
        let bytes = S::bytes(block.add(4 + at));
        Pair { first_at: at, first: S::low(table, bytes), second_at: 16 + at, second: S::high(table, bytes) }
    }

    #[inline(always)]
    unsafe fn one(_run: *const u8, _index: usize) -> f32 {
        f32::NAN
    }
}

/// The `d` of `N` Q8_0 blocks (at most the lanes). Writes a whole vector: what
/// lies past the `N` is written again later or never read.
#[inline(always)]
unsafe fn some_d<S: Simd, const N: usize>(blocks: *const u8, out: *mut f32) {
    let mut halves = [0u16; 16];
    for (i, bits) in halves.iter_mut().enumerate().take(N) {
        *bits = blocks.add(i * Q8_0::BYTES).cast::<u16>().read_unaligned();
    }
    S::store(out, S::load_f16(halves.as_ptr()));
}

/// The `d` and `m` of `N` Q4_1 blocks (at most half the lanes); as [`some_d`].
#[inline(always)]
unsafe fn some_d_m<S: Simd, const N: usize>(blocks: *const u8, out: *mut f32) {
    let mut words = [0u32; 8];
    for (i, bits) in words.iter_mut().enumerate().take(N) {
        *bits = blocks.add(i * Q4_1::BYTES).cast::<u32>().read_unaligned();
    }
    S::store(out, S::load_f16(words.as_ptr().cast()));
}
