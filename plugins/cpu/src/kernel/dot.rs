//! Weight rows times a few activation rows: the decode kernel, one pass over the weights.
#![allow(unsafe_op_in_unsafe_fn)] // each function's Safety section is the proof of its body

use std::mem::MaybeUninit;

use crate::format::{CHUNK, CHUNK_SCALES, Decode};
use crate::simd::Simd;

/// A group of weight rows and the activation rows they meet.
#[derive(Clone, Copy)]
pub(crate) struct DotArgs {
    /// First byte of the group's first row.
    pub(crate) rows: *const u8,
    /// Bytes from one row to the next.
    pub(crate) row_bytes: usize,
    /// Values in a row.
    pub(crate) k: usize,
    /// The first activation row.
    pub(crate) x: *const f32,
    /// Values from one activation row to the next.
    pub(crate) x_stride: usize,
    /// `[row][column]` results.
    pub(crate) out: *mut f32,
}

/// `R` rows by `C` columns. `FAR` asks for the weights of the next group of rows and of
/// the one after it; without, those in use next are asked for, which for long rows are
/// the rest of this group's.
///
/// # Safety
/// The CPU has `S`'s features; `rows` holds `R` rows of `k` values of `D`, `x`
/// holds `C` rows of `k`, `out` has room for `R * C` values.
#[inline(always)]
pub(crate) unsafe fn dot<S: Simd, D: Decode, const R: usize, const C: usize, const FAR: bool>(
    args: &DotArgs,
) {
    let DotArgs { rows, row_bytes, k, x, x_stride, out } = *args;
    let mut first = [[S::zero(); C]; R];
    let mut second = [[S::zero(); C]; R];
    let mut scales = MaybeUninit::<[[f32; CHUNK_SCALES]; R]>::uninit();
    let scales = scales.as_mut_ptr().cast::<f32>();
    let blocks = k / D::LEN;
    let mut done = 0;
    while done < blocks {
        let count = (blocks - done).min(CHUNK / D::LEN);
        for r in 0..R {
            D::scales::<S>(rows.add(r * row_bytes + done * D::BYTES), count, scales.add(r * CHUNK_SCALES));
        }
        // What follows these bytes in use: the rows' next chunk, else the next
        // group's first one.
        let next = if done + count < blocks { count * D::BYTES } else { R * row_bytes - done * D::BYTES };
        for block in 0..count {
            let x = x.add((done + block) * D::LEN);
            for r in 0..R {
                let at = rows.add(r * row_bytes + (done + block) * D::BYTES);
                if D::BYTES >= 64 || block * D::BYTES % 64 < D::BYTES {
                    let mut line = 0;
                    while line < D::BYTES {
                        if FAR {
                            S::prefetch(at.wrapping_add(R * row_bytes + line));
                            S::prefetch_far(at.wrapping_add(2 * R * row_bytes + line));
                        } else {
                            S::prefetch(at.wrapping_add(next + line));
                        }
                        line += 64;
                    }
                }
                let scales = scales.add(r * CHUNK_SCALES + block * D::SCALES);
                for index in 0..D::LEN / (2 * S::LANES) {
                    let pair = D::pair::<S>(at, scales, index);
                    for c in 0..C {
                        let x = x.add(c * x_stride);
                        first[r][c] = S::fma(pair.first, S::load(x.add(pair.first_at)), first[r][c]);
                        second[r][c] = S::fma(pair.second, S::load(x.add(pair.second_at)), second[r][c]);
                    }
                }
            }
        }
        done += count;
    }
    for r in 0..R {
        for c in 0..C {
            let mut sum = S::sum(S::add(first[r][c], second[r][c]));
            if D::RAGGED {
                let tail = rows.add(r * row_bytes + blocks * D::BYTES);
                for i in 0..k % D::LEN {
                    sum += D::one(tail, i) * *x.add(c * x_stride + blocks * D::LEN + i);
                }
            }
            *out.add(r * C + c) = sum;
        }
    }
}
