//! Weight formats as the kernels read them: a block opened once, then taken two vectors at a time.

mod float;
mod heads;
mod legacy;
mod five_bit;
mod uneven;
mod k_scales;
mod q2_k;
mod q3_k;
mod q4_k;
mod q5_k;
mod q6_k;

pub(crate) use five_bit::{Q5_0, Q5_1};
pub(crate) use float::{Bf16, F16, F32};
pub(crate) use legacy::{Q4_0, Q4_1, Q8_0};
pub(crate) use q2_k::Q2K;
pub(crate) use q3_k::Q3K;
pub(crate) use q4_k::Q4K;
pub(crate) use q5_k::Q5K;
pub(crate) use q6_k::Q6K;
pub(crate) use uneven::{Iq4Nl, Iq4Xs, Mxfp4};

use crate::simd::Simd;

/// Where in its block a pair of vectors belongs, and the vectors.
pub(crate) struct Pair<S: Simd> {
    pub(crate) first_at: usize,
    pub(crate) first: S::F,
    pub(crate) second_at: usize,
    pub(crate) second: S::F,
}

/// Values of a row whose scales are worked out together, ahead of the products:
/// the loads of their headers overlap, and what they give comes from the cache.
pub(crate) const CHUNK: usize = 2048;
/// Scale values a row's chunk takes at most, in any format.
pub(crate) const CHUNK_SCALES: usize = 256;

/// A weight format decoded in registers.
///
/// # Safety
/// Methods run only where the tier's features are; blocks are readable bytes at
/// any alignment.
pub(crate) trait Decode: Copy + 'static {
    /// Values in a block; a multiple of 32 that divides [`CHUNK`].
    const LEN: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// Scale values of a block; `CHUNK / LEN` blocks take at most [`CHUNK_SCALES`].
    const SCALES: usize;
    /// Values a row may have past its last whole block: true for plain numbers,
    /// whose "block" here is only a run of values.
    const RAGGED: bool = false;

    /// Writes the scales of `count` blocks, [`Decode::SCALES`] each.
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32);
    /// Pair `index` of `LEN / (2 * LANES)` of a block with its scales.
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S>;
    /// Value `index` of a run of plain numbers; only called where `RAGGED`.
    #[inline(always)]
    unsafe fn one(_run: *const u8, _index: usize) -> f32 {
        f32::NAN
    }
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
