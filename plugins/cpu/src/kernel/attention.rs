//! Attention's inner loops: scores and weighted values of a run of positions,
//! for the query heads that share one K/V head.
//!
//! Two shapes. Decode meets few query rows: each cached key is converted once
//! and multiplied with up to four query heads. Prefill meets many: keys are
//! transposed into f32 once and `matmul` tiles do the rest.
#![allow(unsafe_op_in_unsafe_fn)] // each function's Safety section is the proof of its body

use crate::simd::{self, Simd};

/// `out[g * stride + i] = q[g] . key[i]` for `G` query rows of `dim` and `n` keys.
///
/// # Safety
/// The CPU has `S`'s features; `q` holds `G` rows of `dim` (a multiple of 16),
/// every `keys[i]` points at `dim` f16 values, `out` has room.
#[inline(always)]
pub(crate) unsafe fn scores<S: Simd, const G: usize>(
    q: *const f32,
    dim: usize,
    keys: &[*const u16],
    out: *mut f32,
    stride: usize,
) {
    let (fours, rest) = keys.as_chunks::<4>();
    for (i, keys) in fours.iter().enumerate() {
        let mut acc = [[S::zero(); 4]; G];
        let mut d = 0;
        while d < dim {
            let mut k = [S::zero(); 4];
            for (k, key) in k.iter_mut().zip(keys) {
                *k = S::load_f16(key.add(d));
            }
            for (g, acc) in acc.iter_mut().enumerate() {
                let q = S::load(q.add(g * dim + d));
                for (acc, k) in acc.iter_mut().zip(k) {
                    *acc = S::fma(q, k, *acc);
                }
            }
            d += S::LANES;
        }
        for (g, acc) in acc.iter().enumerate() {
            for (j, acc) in acc.iter().enumerate() {
                *out.add(g * stride + 4 * i + j) = S::sum(*acc);
            }
        }
    }
    for (i, key) in rest.iter().enumerate() {
        for g in 0..G {
            let mut acc = S::zero();
            let mut d = 0;
            while d < dim {
                acc = S::fma(S::load(q.add(g * dim + d)), S::load_f16(key.add(d)), acc);
                d += S::LANES;
            }
            *out.add(g * stride + 4 * fours.len() + i) = S::sum(acc);
        }
    }
}

/// `acc[g] = acc[g] * keep[g] + sum_i p[g * stride + i] * value[i]` for `G` rows of `dim`.
///
/// # Safety
/// As [`scores`]; `acc` holds `G` rows of `dim`, `p` holds `values.len()` weights a row.
#[inline(always)]
pub(crate) unsafe fn values<S: Simd, const G: usize>(
    p: *const f32,
    stride: usize,
    values: &[*const u16],
    dim: usize,
    keep: &[f32; 4],
    acc: *mut f32,
) {
    let mut d = 0;
    while d + 2 * S::LANES <= dim {
        weigh::<S, G, 2>(p, stride, values, dim, keep, acc, d);
        d += 2 * S::LANES;
    }
    while d < dim {
        weigh::<S, G, 1>(p, stride, values, dim, keep, acc, d);
        d += S::LANES;
    }
}

/// [`values`] for `V` vectors from element `d`.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // the slice of `values` above, whose arguments it repeats
unsafe fn weigh<S: Simd, const G: usize, const V: usize>(
    p: *const f32,
    stride: usize,
    values: &[*const u16],
    dim: usize,
    keep: &[f32; 4],
    acc: *mut f32,
    d: usize,
) {
    let mut sums = [[S::zero(); V]; G];
    for (g, sums) in sums.iter_mut().enumerate() {
        for (v, sum) in sums.iter_mut().enumerate() {
            *sum = S::mul(S::load(acc.add(g * dim + d + v * S::LANES)), S::splat(keep[g]));
        }
    }
    for (i, value) in values.iter().enumerate() {
        let mut vector = [S::zero(); V];
        for (v, vector) in vector.iter_mut().enumerate() {
            *vector = S::load_f16(value.add(d + v * S::LANES));
        }
        for (g, sums) in sums.iter_mut().enumerate() {
            let weight = S::splat(*p.add(g * stride + i));
            for (sum, vector) in sums.iter_mut().zip(vector) {
                *sum = S::fma(weight, vector, *sum);
            }
        }
    }
    for (g, sums) in sums.iter().enumerate() {
        for (v, sum) in sums.iter().enumerate() {
            S::store(acc.add(g * dim + d + v * S::LANES), *sum);
        }
    }
}

/// Softmax of one row of scores against a running maximum: caps them if asked,
/// replaces each by `e^(score - new maximum)`, and answers (new maximum, their sum).
///
/// # Safety
/// The CPU has `S`'s features; `row` holds `len` values.
#[inline(always)]
pub(crate) unsafe fn weights<S: Simd>(row: *mut f32, len: usize, cap: f32, maximum: f32) -> (f32, f32) {
    let mut top = S::splat(maximum);
    let mut i = 0;
    while i < len {
        let count = (len - i).min(S::LANES);
        let mut s = part::<S>(row.add(i), count);
        if cap != 0.0 {
            s = simd::softcap::<S>(s, cap);
            put::<S>(row.add(i), count, s);
            if count < S::LANES {
                s = part::<S>(row.add(i), count);
            }
        }
        top = S::max(s, top);
        i += count;
    }
    let top = S::top(top);
    let shift = S::splat(top);
    let mut total = S::zero();
    let mut i = 0;
    while i < len {
        let count = (len - i).min(S::LANES);
        let s = part::<S>(row.add(i), count);
        // `x * 0` keeps a NaN score a NaN weight.
        let e = S::fma(S::sub(s, s), S::zero(), simd::exp::<S>(S::sub(s, shift)));
        put::<S>(row.add(i), count, e);
        total = S::add(total, part_or_zero::<S>(row.add(i), count));
        i += count;
    }
    (top, S::sum(total))
}

#[inline(always)]
unsafe fn part<S: Simd>(from: *const f32, count: usize) -> S::F {
    if count == S::LANES { S::load(from) } else { S::load_first(count, from, f32::NEG_INFINITY) }
}

#[inline(always)]
unsafe fn part_or_zero<S: Simd>(from: *const f32, count: usize) -> S::F {
    if count == S::LANES { S::load(from) } else { S::load_first(count, from, 0.0) }
}

#[inline(always)]
unsafe fn put<S: Simd>(to: *mut f32, count: usize, value: S::F) {
    if count == S::LANES { S::store(to, value) } else { S::store_first(count, to, value) }
}

/// `to[i] = f32(from[i])` for `len` (a multiple of 16) f16 values.
///
/// # Safety
/// The CPU has `S`'s features; both pointers hold `len` values.
#[inline(always)]
pub(crate) unsafe fn widen<S: Simd>(from: *const u16, to: *mut f32, len: usize) {
    let mut i = 0;
    while i < len {
        S::store(to.add(i), S::load_f16(from.add(i)));
        i += S::LANES;
    }
}

/// `to[i] = f16(from[i])` for `len` (a multiple of 16) values, to nearest even.
///
/// # Safety
/// As [`widen`].
#[inline(always)]
pub(crate) unsafe fn narrow<S: Simd>(from: *const f32, to: *mut u16, len: usize) {
    let mut i = 0;
    while i < len {
        S::store_f16(to.add(i), S::load(from.add(i)));
        i += S::LANES;
    }
}

/// A small dense product: `c[r][..] += a[r][0..depth] * b[0..depth][..]` for `rows`
/// rows and `width` (a multiple of 16) columns.
#[derive(Clone, Copy)]
pub(crate) struct DenseArgs {
    pub(crate) a: *const f32,
    pub(crate) a_stride: usize,
    pub(crate) b: *const f32,
    pub(crate) b_stride: usize,
    pub(crate) c: *mut f32,
    pub(crate) c_stride: usize,
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) width: usize,
    /// Start from zero instead of from `c`.
    pub(crate) fresh: bool,
}

/// # Safety
/// The CPU has `S`'s features; the three matrices have the shapes above.
#[inline(always)]
pub(crate) unsafe fn dense<S: Simd, const MV: usize, const NR: usize>(args: &DenseArgs) {
    let mut column = 0;
    while column < args.width {
        let wide = column + MV * S::LANES <= args.width;
        let mut row = 0;
        while row < args.rows {
            let tall = row + NR <= args.rows;
            match (wide, tall) {
                (true, true) => corner::<S, MV, NR>(args, row, column),
                (true, false) => corner::<S, MV, 1>(args, row, column),
                (false, true) => corner::<S, 1, NR>(args, row, column),
                (false, false) => corner::<S, 1, 1>(args, row, column),
            }
            row += if tall { NR } else { 1 };
        }
        column += if wide { MV * S::LANES } else { S::LANES };
    }
}

#[inline(always)]
unsafe fn corner<S: Simd, const MV: usize, const NR: usize>(args: &DenseArgs, row: usize, column: usize) {
    let a = args.a.add(row * args.a_stride);
    let b = args.b.add(column);
    let c = args.c.add(row * args.c_stride + column);
    let mut acc = [[S::zero(); MV]; NR];
    if !args.fresh {
        for (r, acc) in acc.iter_mut().enumerate() {
            for (v, acc) in acc.iter_mut().enumerate() {
                *acc = S::load(c.add(r * args.c_stride + v * S::LANES));
            }
        }
    }
    for k in 0..args.depth {
        let mut x = [S::zero(); MV];
        for (v, x) in x.iter_mut().enumerate() {
            *x = S::load(b.add(k * args.b_stride + v * S::LANES));
        }
        for (r, acc) in acc.iter_mut().enumerate() {
            let weight = S::splat(*a.add(r * args.a_stride + k));
            for (acc, x) in acc.iter_mut().zip(x) {
                *acc = S::fma(weight, x, *acc);
            }
        }
    }
    for (r, acc) in acc.iter().enumerate() {
        for (v, acc) in acc.iter().enumerate() {
            S::store(c.add(r * args.c_stride + v * S::LANES), *acc);
        }
    }
}
