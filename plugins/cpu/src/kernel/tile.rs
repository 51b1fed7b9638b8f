//! The prefill kernel: weights decoded to f32 panels, activations packed, register tiles of products.
//!
//! A panel holds `NR` weight rows as `[k / 16][NR][16]`, packed activations hold
//! `MV` vectors of rows as `[k][MV * LANES]`; both are padded with zeros to a
//! multiple of 16 in k. A tile is `[NR][MV * LANES]` sums in registers: each step
//! in k loads `MV` vectors and broadcasts `NR` weights.
#![allow(unsafe_op_in_unsafe_fn)] // each function's Safety section is the proof of its body

use std::mem::MaybeUninit;

use crate::format::{CHUNK, CHUNK_SCALES, Decode};
use crate::simd::Simd;

/// Values of k laid side by side for each row of a panel.
pub(crate) const STEP: usize = 16;

/// Decodes values `from..from + len` of one weight row into its lane of a panel.
///
/// # Safety
/// The CPU has `S`'s features; `row` holds at least `from + len` values of `D`,
/// `from` is whole blocks, `panel` is the row's place in a panel of `nr` rows
/// with room for `len` rounded up to [`STEP`].
#[inline(always)]
pub(crate) unsafe fn expand<S: Simd, D: Decode>(
    row: *const u8,
    from: usize,
    len: usize,
    panel: *mut f32,
    nr: usize,
) {
    let row = row.add(from / D::LEN * D::BYTES);
    let place = |at: usize| panel.wrapping_add(at / STEP * STEP * nr + at % STEP);
    let mut scales = MaybeUninit::<[f32; CHUNK_SCALES]>::uninit();
    let scales = scales.as_mut_ptr().cast::<f32>();
    let blocks = len / D::LEN;
    for block in 0..blocks {
        let at = row.add(block * D::BYTES);
        let in_chunk = block % (CHUNK / D::LEN);
        if in_chunk == 0 {
            D::scales::<S>(at, (blocks - block).min(CHUNK / D::LEN), scales);
        }
        for index in 0..D::LEN / (2 * S::LANES) {
            let pair = D::pair::<S>(at, scales.add(in_chunk * D::SCALES), index);
            S::store(place(block * D::LEN + pair.first_at), pair.first);
            S::store(place(block * D::LEN + pair.second_at), pair.second);
        }
    }
    if D::RAGGED {
        let tail = row.add(blocks * D::BYTES);
        for i in 0..len % D::LEN {
            *place(blocks * D::LEN + i) = D::one(tail, i);
        }
        for i in len..len.next_multiple_of(STEP) {
            *place(i) = 0.0;
        }
    }
}

/// Packs `rows` (at most `width`) activation rows, columns `0..len`, as `[k][width]`;
/// missing rows and columns up to a multiple of [`STEP`] are zero.
///
/// # Safety
/// `x` holds `rows` rows of `len` values, `stride` apart; `packed` has room for
/// `len` rounded up to [`STEP`] times `width`.
#[inline(always)]
pub(crate) unsafe fn pack(
    x: *const f32,
    stride: usize,
    rows: usize,
    len: usize,
    packed: *mut f32,
    width: usize,
) {
    // Blocks of sixteen columns: each row gives a cache line, each store run is short.
    let mut k = 0;
    while k < len {
        let columns = (len - k).min(STEP);
        for row in 0..rows {
            let from = x.add(row * stride + k);
            for j in 0..columns {
                *packed.add((k + j) * width + row) = *from.add(j);
            }
        }
        for j in 0..columns {
            for row in rows..width {
                *packed.add((k + j) * width + row) = 0.0;
            }
        }
        k += STEP;
    }
    for k in len..len.next_multiple_of(STEP) {
        for row in 0..width {
            *packed.add(k * width + row) = 0.0;
        }
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;
/// Cache lines of activations a tile asks for ahead in each run of [`STEP`].
pub(crate) const AHEAD_LINES: usize = 8;

/// Adds (or, when `fresh`, writes) the products of `steps` runs of [`STEP`] to the sums, and asks for the
/// `steps * AHEAD_LINES` cache lines at `ahead`: activations that outgrow the second-level cache stream from further off
/// than the processor's own prefetching hides.
///
/// # Safety
/// The CPU has `S`'s features; `panel` holds `steps * NR * 16` values, `packed`
/// `steps * 16 * MV * LANES`, `sums` has room for `NR * MV * LANES`.
#[inline(always)]
pub(crate) unsafe fn tile<S: Simd, const MV: usize, const NR: usize>(
    panel: *const f32,
    packed: *const f32,
    steps: usize,
    sums: *mut f32,
    fresh: bool,
    ahead: *const f32,
) {
    let width = MV * S::LANES;
    let mut acc = [[S::zero(); MV]; NR];
    if !fresh {
        for (r, acc) in acc.iter_mut().enumerate() {
            for (v, acc) in acc.iter_mut().enumerate() {
                *acc = S::load(sums.add(r * width + v * S::LANES));
            }
        }
    }
    for step in 0..steps {
        let panel = panel.add(step * NR * STEP);
        let packed = packed.add(step * STEP * width);
        let ahead = ahead.cast::<u8>().wrapping_add(step * AHEAD_LINES * LINE);
        for k in 0..STEP {
            if k % (STEP / AHEAD_LINES) == 0 {
                S::prefetch_far(ahead.wrapping_add(k / (STEP / AHEAD_LINES) * LINE));
            }
            let mut x = [S::zero(); MV];
            for (v, x) in x.iter_mut().enumerate() {
                *x = S::load(packed.add(k * width + v * S::LANES));
            }
            for (r, acc) in acc.iter_mut().enumerate() {
                let weight = S::splat(*panel.add(r * STEP + k));
                for (acc, x) in acc.iter_mut().zip(x) {
                    *acc = S::fma(weight, x, *acc);
                }
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        for (v, acc) in acc.iter().enumerate() {
            S::store(sums.add(r * width + v * S::LANES), *acc);
        }
    }
}
