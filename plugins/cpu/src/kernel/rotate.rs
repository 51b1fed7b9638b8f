//! Rotary embedding of one head, in place.
#![allow(unsafe_op_in_unsafe_fn)] // each function's Safety section is the proof of its body

use crate::simd::Simd;

/// Rotates `(i, i + half)` for `i` in `0..half`.
///
/// # Safety
/// The CPU has `S`'s features; `head` holds `2 * half` values, `cos` and `sin` `half`.
#[inline(always)]
pub(crate) unsafe fn halves<S: Simd>(head: *mut f32, cos: *const f32, sin: *const f32, half: usize) {
    let mut i = 0;
    while i + S::LANES <= half {
        let (x, y) = (S::load(head.add(i)), S::load(head.add(half + i)));
        let (c, s) = (S::load(cos.add(i)), S::load(sin.add(i)));
        S::store(head.add(i), S::sub(S::mul(x, c), S::mul(y, s)));
        S::store(head.add(half + i), S::fma(x, s, S::mul(y, c)));
        i += S::LANES;
    }
    while i < half {
        let (x, y) = (*head.add(i), *head.add(half + i));
        let (c, s) = (*cos.add(i), *sin.add(i));
        *head.add(i) = x * c - y * s;
        *head.add(half + i) = x * s + y * c;
        i += 1;
    }
}

/// Rotates `(2i, 2i + 1)` for `i` in `0..half`.
///
/// # Safety
/// As [`halves`].
#[inline(always)]
pub(crate) unsafe fn pairs(head: *mut f32, cos: *const f32, sin: *const f32, half: usize) {
    for i in 0..half {
        let (x, y) = (*head.add(2 * i), *head.add(2 * i + 1));
        let (c, s) = (*cos.add(i), *sin.add(i));
        *head.add(2 * i) = x * c - y * s;
        *head.add(2 * i + 1) = x * s + y * c;
    }
}
