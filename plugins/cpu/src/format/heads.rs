//! The half-precision numbers at the head of small blocks, read several blocks at a time.
#![allow(unsafe_op_in_unsafe_fn)] // each function's Safety section is the proof of its body

use super::half_at;
use crate::simd::Simd;

/// The first number of each of `count` blocks of `BYTES` bytes.
///
/// # Safety
/// As [`Decode::scales`](super::Decode::scales) of a format with one scale.
#[inline(always)]
pub(super) unsafe fn first<S: Simd, const BYTES: usize>(blocks: *const u8, count: usize, out: *mut f32) {
    let mut at = 0;
    while at + 8 <= count {
        some::<S, BYTES, 8>(blocks.add(at * BYTES), out.add(at));
        at += 8;
    }
    if at + 4 <= count {
        some::<S, BYTES, 4>(blocks.add(at * BYTES), out.add(at));
        at += 4;
    }
    // The rest may repeat blocks of the group before it.
    if at < count && count >= 4 {
        some::<S, BYTES, 4>(blocks.add((count - 4) * BYTES), out.add(count - 4));
        return;
    }
    while at < count {
        *out.add(at) = half_at::<S>(blocks.add(at * BYTES));
        at += 1;
    }
}

/// The first two numbers of each of `count` blocks of `BYTES` bytes, side by side.
///
/// # Safety
/// As [`Decode::scales`](super::Decode::scales) of a format with two scales.
#[inline(always)]
pub(super) unsafe fn first_two<S: Simd, const BYTES: usize>(blocks: *const u8, count: usize, out: *mut f32) {
    let mut at = 0;
    while at + 8 <= count && S::LANES == 16 {
        some_two::<S, BYTES, 8>(blocks.add(at * BYTES), out.add(2 * at));
        at += 8;
    }
    while at + 4 <= count {
        some_two::<S, BYTES, 4>(blocks.add(at * BYTES), out.add(2 * at));
        at += 4;
    }
    // The rest may repeat blocks of the group before it.
    if at < count && count >= 4 {
        some_two::<S, BYTES, 4>(blocks.add((count - 4) * BYTES), out.add(2 * (count - 4)));
        return;
    }
    while at < count {
        let block = blocks.add(at * BYTES);
        *out.add(2 * at) = half_at::<S>(block);
        *out.add(2 * at + 1) = half_at::<S>(block.add(2));
        at += 1;
    }
}

/// The first number of `N` blocks (at most the lanes). Writes a whole vector: what
/// lies past the `N` is written again later or never read.
#[inline(always)]
unsafe fn some<S: Simd, const BYTES: usize, const N: usize>(blocks: *const u8, out: *mut f32) {
    let mut halves = [0u16; 16];
    for (i, bits) in halves.iter_mut().enumerate().take(N) {
        *bits = blocks.add(i * BYTES).cast::<u16>().read_unaligned();
    }
    S::store(out, S::load_f16(halves.as_ptr()));
}

/// The first two numbers of `N` blocks (at most half the lanes); as [`some`].
#[inline(always)]
unsafe fn some_two<S: Simd, const BYTES: usize, const N: usize>(blocks: *const u8, out: *mut f32) {
    let mut words = [0u32; 8];
    for (i, bits) in words.iter_mut().enumerate().take(N) {
        *bits = blocks.add(i * BYTES).cast::<u32>().read_unaligned();
    }
    S::store(out, S::load_f16(words.as_ptr().cast()));
}
