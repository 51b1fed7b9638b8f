//! Transcendental functions over vectors: exp, SiLU, GELU, the softcap.
#![allow(unsafe_op_in_unsafe_fn)] // as the trait: the caller vouches for the tier

use super::Simd;

/// `e^x` to about two units in the last place. Below -87.3 it answers 0 or the
/// smallest normal number, above 88.3 a number near the largest; NaN goes low,
/// so callers that must keep NaN add `x * 0`.
///
/// # Safety
/// The CPU has the tier's features.
#[inline(always)]
pub(crate) unsafe fn exp<S: Simd>(x: S::F) -> S::F {
    let x = S::max(S::min(x, S::splat(88.0)), S::splat(-87.0));
    let n = S::round(S::mul(x, S::splat(std::f32::consts::LOG2_E)));
    // ln 2 in two parts, so that the product with a whole n is exact.
    let r = S::fma(n, S::splat(-0.693_359_4), x);
    let r = S::fma(n, S::splat(2.121_944_4e-4), r);
    let mut p = S::splat(1.0 / 5040.0);
    for c in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = S::fma(p, r, S::splat(c));
    }
    S::scale_by_power(p, n)
}

/// `x / (1 + e^-x)`.
///
/// # Safety
/// The CPU has the tier's features.
#[inline(always)]
pub(crate) unsafe fn silu<S: Simd>(x: S::F) -> S::F {
    let e = exp::<S>(S::sub(S::zero(), x));
    S::div(x, S::add(S::splat(1.0), e))
}

/// GELU in its tanh form: `x / 2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`,
/// written with `1 + tanh(u) = 2 / (1 + e^-2u)`.
///
/// # Safety
/// The CPU has the tier's features.
#[inline(always)]
pub(crate) unsafe fn gelu<S: Simd>(x: S::F) -> S::F {
    let cubic = S::fma(S::mul(x, x), S::splat(0.044_715), S::splat(1.0));
    let minus_2u = S::mul(S::mul(x, cubic), S::splat(-1.595_769));
    S::div(x, S::add(S::splat(1.0), exp::<S>(minus_2u)))
}

/// `cap * tanh(x / cap)`.
///
/// # Safety
/// The CPU has the tier's features.
#[inline(always)]
pub(crate) unsafe fn softcap<S: Simd>(x: S::F, cap: f32) -> S::F {
    // tanh(u) = 1 - 2 / (e^2u + 1); the clamp of exp keeps both ends at +-1.
    let e = exp::<S>(S::mul(x, S::splat(2.0 / cap)));
    let tanh = S::sub(S::splat(1.0), S::div(S::splat(2.0), S::add(e, S::splat(1.0))));
    // exp swallows NaN; this brings it back.
    S::fma(S::mul(x, S::zero()), S::splat(1.0), S::mul(S::splat(cap), tanh))
}
