//! The vector types kernels are written over: one trait, three widths.
//!
//! A kernel is written once, generic over [`Simd`], every function on the way
//! `#[inline(always)]`; `kernel/table.rs` instantiates it per tier inside a
//! `#[target_feature]` function, which is where the instructions become real.

mod portable;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod math;

#[cfg(target_arch = "x86_64")]
pub(crate) use avx2::Avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::Avx512;
pub(crate) use math::{exp, gelu, silu, softcap};
pub(crate) use portable::Portable;

/// A register of f32 lanes and what the kernels do with it.
///
/// # Safety
/// Every method may only run on a CPU (and OS) that has the tier's features;
/// pointers are valid for the lanes (or the count) they name, at any alignment.
pub(crate) trait Simd: Copy + 'static {
    /// f32 lanes.
    const LANES: usize;
    /// `LANES` f32 values.
    type F: Copy;
    /// `LANES` i32 values.
    type I: Copy;
    /// A choice of lanes.
    type Lanes: Copy;
    /// The sixteen values a 4-bit quant stands for, in even steps.
    type Nibble: Copy;
    /// The sixteen values a 4-bit quant stands for, in any steps.
    type Levels: Copy;

    unsafe fn zero() -> Self::F;
    unsafe fn splat(value: f32) -> Self::F;
    unsafe fn load(from: *const f32) -> Self::F;
    unsafe fn store(to: *mut f32, value: Self::F);
    /// The first `count` (< `LANES`) values; the other lanes are `fill`.
    unsafe fn load_first(count: usize, from: *const f32, fill: f32) -> Self::F;
    unsafe fn store_first(count: usize, to: *mut f32, value: Self::F);

    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// The larger of each pair; `b` when `a` is NaN.
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;
    /// The smaller of each pair; `b` when `a` is NaN.
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn sum(a: Self::F) -> f32;
    unsafe fn top(a: Self::F) -> f32;
    /// Bit `i` set: lane `i` of `a` equals lane `i` of `b`.
    unsafe fn equal(a: Self::F, b: Self::F) -> u32;
    unsafe fn round(a: Self::F) -> Self::F;
    /// `a * 2^n` for whole `n` in -126..=127.
    unsafe fn scale_by_power(a: Self::F, n: Self::F) -> Self::F;

    unsafe fn load_f16(from: *const u16) -> Self::F;
    unsafe fn store_f16(to: *mut u16, value: Self::F);
    unsafe fn load_bf16(from: *const u16) -> Self::F;
    /// `LANES` signed bytes as f32.
    unsafe fn load_i8(from: *const u8) -> Self::F;
    /// Sixteen unsigned bytes as f32, the first eight times `factors[0]`, the
    /// rest times `factors[1]`.
    unsafe fn scaled_bytes(bytes: [u64; 2], factors: [f32; 2], to: *mut f32);
    /// One half-precision number.
    unsafe fn f16(bits: u16) -> f32;

    /// `LANES` unsigned bytes as i32.
    unsafe fn bytes(from: *const u8) -> Self::I;
    unsafe fn and(a: Self::I, mask: i32) -> Self::I;
    unsafe fn or(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn shr<const BITS: u32>(a: Self::I) -> Self::I;
    unsafe fn shl<const BITS: u32>(a: Self::I) -> Self::I;
    /// As [`Simd::shr`], with a count below 32 that a loop knows.
    unsafe fn shr_by(a: Self::I, bits: u32) -> Self::I;
    unsafe fn to_f32(a: Self::I) -> Self::F;

    /// Lane `i` where bit `i` is set; bits past the lanes may be anything.
    unsafe fn lanes(bits: u32) -> Self::Lanes;
    /// The lanes whose integer has this bit.
    unsafe fn bit_set(a: Self::I, bit: u32) -> Self::Lanes;
    /// The lanes whose integer lacks this bit.
    unsafe fn bit_clear(a: Self::I, bit: u32) -> Self::Lanes;
    /// `a + b` in the chosen lanes, `a` in the others.
    unsafe fn add_where(lanes: Self::Lanes, a: Self::F, b: Self::F) -> Self::F;

    /// The table of `q * d + m`.
    unsafe fn nibble(d: f32, m: f32) -> Self::Nibble;
    /// The values of the low halves of `LANES` bytes.
    unsafe fn low(table: Self::Nibble, bytes: Self::I) -> Self::F;
    /// The values of the high halves of `LANES` bytes (each at most 255).
    unsafe fn high(table: Self::Nibble, bytes: Self::I) -> Self::F;
    /// The table of `values * d`.
    unsafe fn levels(values: &[f32; 16], d: f32) -> Self::Levels;
    /// The values of the low halves of `LANES` bytes.
    unsafe fn level_low(table: Self::Levels, bytes: Self::I) -> Self::F;
    /// The values of the high halves of `LANES` bytes (each at most 255).
    unsafe fn level_high(table: Self::Levels, bytes: Self::I) -> Self::F;
    /// `q * d + m` of the lowest two bits of `LANES` bytes.
    #[inline(always)]
    unsafe fn quarter(d: f32, m: f32, bytes: Self::I) -> Self::F {
        // SAFETY: promised by the caller.
        unsafe { Self::fma(Self::to_f32(Self::and(bytes, 3)), Self::splat(d), Self::splat(m)) }
    }
    /// `q * d + m` of the two bits above those.
    #[inline(always)]
    unsafe fn next_quarter(d: f32, m: f32, bytes: Self::I) -> Self::F {
        // SAFETY: promised by the caller.
        unsafe { Self::quarter(d, m, Self::shr::<2>(bytes)) }
    }

    /// Asks for the cache line at an address that need not be mapped.
    unsafe fn prefetch(at: *const u8);
    /// As [`Simd::prefetch`], for the second-level cache.
    unsafe fn prefetch_far(at: *const u8);
}
