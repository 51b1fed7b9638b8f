//! Norm, add, GLU and argmax over one row.
#![allow(unsafe_op_in_unsafe_fn)] // each function's Safety section is the proof of its body

use crate::simd::{self, Simd};

/// A function of two vectors. A trait, not a closure: a closure would be a
/// function without the tier's features whenever the compiler left it a call.
trait Both: Copy {
    unsafe fn of<S: Simd>(self, a: S::F, b: S::F) -> S::F;
}

/// Applies `f` to `a[i], b[i]` for all of `len`.
#[inline(always)]
unsafe fn zip<S: Simd, T: Both>(a: *const f32, b: *const f32, out: *mut f32, len: usize, f: T) {
    let mut i = 0;
    while i + S::LANES <= len {
        S::store(out.add(i), f.of::<S>(S::load(a.add(i)), S::load(b.add(i))));
        i += S::LANES;
    }
    if i < len {
        let count = len - i;
        let (a, b) = (S::load_first(count, a.add(i), 0.0), S::load_first(count, b.add(i), 0.0));
        S::store_first(count, out.add(i), f.of::<S>(a, b));
    }
}

macro_rules! both {
    ($name:ident { $($field:ident),* }, $s:ident, |$this:ident, $a:ident, $b:ident| $body:expr) => {
        #[derive(Clone, Copy)]
        struct $name {
            $($field: f32),*
        }

        impl Both for $name {
            #[inline(always)]
            unsafe fn of<$s: Simd>(self, $a: $s::F, $b: $s::F) -> $s::F {
                let $this = self;
                $body
            }
        }
    };
}

both!(Sum {}, S, |_this, a, b| S::add(a, b));
both!(SiluGlu {}, S, |_this, gate, up| S::mul(simd::silu::<S>(gate), up));
both!(GeluGlu {}, S, |_this, gate, up| S::mul(simd::gelu::<S>(gate), up));
both!(Softcap { cap }, S, |this, x, _same| simd::softcap::<S>(x, this.cap));
both!(Scaled { factor, offset }, S, |this, x, weight| S::mul(
    S::mul(x, S::splat(this.factor)),
    S::add(weight, S::splat(this.offset))
));

/// `out = a + b`; `out` may be either.
///
/// # Safety
/// The CPU has `S`'s features; each pointer holds `len` values.
#[inline(always)]
pub(crate) unsafe fn add<S: Simd>(a: *const f32, b: *const f32, out: *mut f32, len: usize) {
    zip::<S, _>(a, b, out, len, Sum {});
}

/// `out = act(gate) * up`; `out` may be either.
///
/// # Safety
/// As [`add`].
#[inline(always)]
pub(crate) unsafe fn glu<S: Simd>(gate: *const f32, up: *const f32, out: *mut f32, len: usize, gelu: bool) {
    if gelu {
        zip::<S, _>(gate, up, out, len, GeluGlu {});
    } else {
        zip::<S, _>(gate, up, out, len, SiluGlu {});
    }
}

/// `x = cap * tanh(x / cap)` in place.
///
/// # Safety
/// As [`add`].
#[inline(always)]
pub(crate) unsafe fn softcap<S: Simd>(x: *mut f32, len: usize, cap: f32) {
    zip::<S, _>(x, x, x, len, Softcap { cap });
}

/// `out = x / sqrt(mean(x^2) + eps) * (weight + offset)`; `out` may be `x`.
///
/// # Safety
/// As [`add`].
#[inline(always)]
pub(crate) unsafe fn norm<S: Simd>(
    x: *const f32,
    weight: *const f32,
    out: *mut f32,
    len: usize,
    eps: f32,
    offset: f32,
) {
    // Sums of at most a few thousand values a lane, in four chains.
    let mut sums = [S::zero(); 4];
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        for (v, sum) in sums.iter_mut().enumerate() {
            let x = S::load(x.add(i + v * S::LANES));
            *sum = S::fma(x, x, *sum);
        }
        i += 4 * S::LANES;
    }
    while i < len {
        let count = (len - i).min(S::LANES);
        let part = if count == S::LANES { S::load(x.add(i)) } else { S::load_first(count, x.add(i), 0.0) };
        sums[0] = S::fma(part, part, sums[0]);
        i += count;
    }
    let total = S::sum(S::add(S::add(sums[0], sums[1]), S::add(sums[2], sums[3])));
    let mean = f64::from(total) / len as f64;
    let factor = (1.0 / (mean + f64::from(eps)).sqrt()) as f32;
    zip::<S, _>(x, weight, out, len, Scaled { factor, offset });
}

/// Index of the largest value; the lowest on ties, `u32::MAX` when all are NaN.
///
/// # Safety
/// As [`add`]; `len` fits a u32.
#[inline(always)]
pub(crate) unsafe fn argmax<S: Simd>(x: *const f32, len: usize) -> u32 {
    let mut top = [S::splat(f32::NEG_INFINITY); 4];
    let mut i = 0;
    while i + 4 * S::LANES <= len {
        for (v, top) in top.iter_mut().enumerate() {
            // `max` keeps its second operand when the first is NaN.
            *top = S::max(S::load(x.add(i + v * S::LANES)), *top);
        }
        i += 4 * S::LANES;
    }
    let mut best = S::top(S::max(S::max(top[0], top[1]), S::max(top[2], top[3])));
    for j in i..len {
        best = best.max(*x.add(j));
    }
    let wanted = S::splat(best);
    let mut i = 0;
    while i + S::LANES <= len {
        let mask = S::equal(S::load(x.add(i)), wanted);
        if mask != 0 {
            return (i as u32) + mask.trailing_zeros();
        }
        i += S::LANES;
    }
    (i..len).find(|&j| *x.add(j) == best).map_or(u32::MAX, |j| j as u32)
}
