//! Weight formats as the kernels read them: a block opened once, then taken two vectors at a time.

mod float;
mod legacy;
mod q4_k;
mod q6_k;

pub(crate) use float::{Bf16, F16, F32};
pub(crate) use legacy::{Q4_1, Q8_0};
pub(crate) use q4_k::Q4K;
pub(crate) use q6_k::Q6K;

use crate::simd::Simd;

/// Where in its block a pair of vectors belongs, and the vectors.
pub(crate) struct Pair<S: Simd> {
    pub(crate) first_at: usize,
    pub(crate) first: S::F,
    pub(crate) second_at: usize,
    pub(crate) second: S::F,
}

/// A weight format decoded in registers.
///
/// # Safety
/// Methods run only where the tier's features are; `block` points at `BYTES`
/// readable bytes, at any alignment.
pub(crate) trait Decode: Copy + 'static {
    /// Values in a block; a multiple of 32.
    const LEN: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// Values a row may have past its last whole block: true for plain numbers,
    /// whose "block" here is only a run of values.
    const RAGGED: bool;
    /// What is worked out once per block.
    type Open<S: Simd>: Copy;

    unsafe fn open<S: Simd>(block: *const u8) -> Self::Open<S>;
    /// Pair `index` of `LEN / (2 * LANES)`.
    unsafe fn pair<S: Simd>(block: *const u8, open: &Self::Open<S>, index: usize) -> Pair<S>;
    /// Value `index` of a run of plain numbers; only called where `RAGGED`.
    unsafe fn one(run: *const u8, index: usize) -> f32;
}

/// Reads a half-precision number at any address.
///
/// # Safety
/// As [`Decode`], with two readable bytes.
#[inline(always)]
#[allow(unsafe_op_in_unsafe_fn)]
unsafe fn half_at<S: Simd>(at: *const u8) -> f32 {
    S::f16(u16::from_le(at.cast::<u16>().read_unaligned()))
}
