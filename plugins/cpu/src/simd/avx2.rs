//! The AVX2 tier: eight lanes, with FMA and F16C.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use std::arch::x86_64::*;

use super::Simd;

/// AVX2 with FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

impl Simd for Avx2 {
    const LANES: usize = 8;
    type F = __m256;
    type I = __m256i;
    type Lanes = __m256;
    type Nibble = (__m256, __m256);
    type Levels = (__m256, __m256);

    #[inline(always)]
    unsafe fn zero() -> __m256 {
        _mm256_setzero_ps()
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> __m256 {
        _mm256_set1_ps(value)
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m256 {
        _mm256_loadu_ps(from)
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: __m256) {
        _mm256_storeu_ps(to, value);
    }
    #[inline(always)]
    unsafe fn load_first(count: usize, from: *const f32, fill: f32) -> __m256 {
        let mut lanes = [fill; 8];
        std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
        _mm256_loadu_ps(lanes.as_ptr())
    }
    #[inline(always)]
    unsafe fn store_first(count: usize, to: *mut f32, value: __m256) {
        let mut lanes = [0.0f32; 8];
        _mm256_storeu_ps(lanes.as_mut_ptr(), value);
        std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
    }

    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        _mm256_add_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        _mm256_sub_ps(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        _mm256_mul_ps(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        _mm256_div_ps(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        _mm256_fmadd_ps(a, b, c)
    }
    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        _mm256_max_ps(a, b)
    }
    #[inline(always)]
    unsafe fn min(a: __m256, b: __m256) -> __m256 {
        _mm256_min_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sum(a: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
    #[inline(always)]
    unsafe fn top(a: __m256) -> f32 {
        let four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        let two = _mm_max_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
    }
    #[inline(always)]
    unsafe fn equal(a: __m256, b: __m256) -> u32 {
        _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(a, b)).cast_unsigned()
    }
    #[inline(always)]
    unsafe fn round(a: __m256) -> __m256 {
        _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: __m256, n: __m256) -> __m256 {
        let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
        _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> __m256 {
        _mm256_cvtph_ps(_mm_loadu_si128(from.cast()))
    }
    #[inline(always)]
    unsafe fn store_f16(to: *mut u16, value: __m256) {
        let half = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(value);
        _mm_storeu_si128(to.cast(), half);
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> __m256 {
        let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> __m256 {
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(from.cast())))
    }
    #[inline(always)]
    unsafe fn scaled_bytes(bytes: [u64; 2], factors: [f32; 2], to: *mut f32) {
        for (half, (bytes, factor)) in bytes.into_iter().zip(factors).enumerate() {
            let wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes.cast_signed()));
            let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(factor));
            _mm256_storeu_ps(to.add(8 * half), scaled);
        }
    }
    #[inline(always)]
    unsafe fn f16(bits: u16) -> f32 {
        _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> __m256i {
        _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))
    }
    #[inline(always)]
    unsafe fn and(a: __m256i, mask: i32) -> __m256i {
        _mm256_and_si256(a, _mm256_set1_epi32(mask))
    }
    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        _mm256_or_si256(a, b)
    }
    #[inline(always)]
    unsafe fn shr<const BITS: u32>(a: __m256i) -> __m256i {
        _mm256_srl_epi32(a, _mm_cvtsi32_si128(BITS.cast_signed()))
    }
    #[inline(always)]
    unsafe fn shl<const BITS: u32>(a: __m256i) -> __m256i {
        _mm256_sll_epi32(a, _mm_cvtsi32_si128(BITS.cast_signed()))
    }
    #[inline(always)]
    unsafe fn shr_by(a: __m256i, bits: u32) -> __m256i {
        _mm256_srl_epi32(a, _mm_cvtsi32_si128(bits.cast_signed()))
    }
    #[inline(always)]
    unsafe fn to_f32(a: __m256i) -> __m256 {
        _mm256_cvtepi32_ps(a)
    }

    #[inline(always)]
    unsafe fn lanes(bits: u32) -> __m256 {
        let own = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        let bits = _mm256_and_si256(_mm256_set1_epi32(bits.cast_signed()), own);
        _mm256_castsi256_ps(_mm256_cmpeq_epi32(bits, own))
    }
    #[inline(always)]
    unsafe fn bit_set(a: __m256i, bit: u32) -> __m256 {
        let own = _mm256_set1_epi32(1 << bit);
        _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(a, own), own))
    }
    #[inline(always)]
    unsafe fn bit_clear(a: __m256i, bit: u32) -> __m256 {
        let own = _mm256_set1_epi32(1 << bit);
        _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(a, own), _mm256_setzero_si256()))
    }
    #[inline(always)]
    unsafe fn add_where(lanes: __m256, a: __m256, b: __m256) -> __m256 {
        _mm256_add_ps(a, _mm256_and_ps(b, lanes))
    }

    #[inline(always)]
    unsafe fn nibble(d: f32, m: f32) -> Self::Nibble {
        (_mm256_set1_ps(d), _mm256_set1_ps(m))
    }
    #[inline(always)]
    unsafe fn low(table: Self::Nibble, bytes: __m256i) -> __m256 {
        let quants = _mm256_cvtepi32_ps(_mm256_and_si256(bytes, _mm256_set1_epi32(15)));
        _mm256_fmadd_ps(quants, table.0, table.1)
    }
    #[inline(always)]
    unsafe fn high(table: Self::Nibble, bytes: __m256i) -> __m256 {
        _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32::<4>(bytes)), table.0, table.1)
    }
    #[inline(always)]
    unsafe fn levels(values: &[f32; 16], d: f32) -> Self::Levels {
        let (d, values) = (_mm256_set1_ps(d), values.as_ptr());
        (_mm256_mul_ps(_mm256_loadu_ps(values), d), _mm256_mul_ps(_mm256_loadu_ps(values.add(8)), d))
    }
    #[inline(always)]
    unsafe fn level_low(table: Self::Levels, bytes: __m256i) -> __m256 {
        // Each lookup takes the low three bits of an index; the fourth, as the sign, chooses.
        let first = _mm256_permutevar8x32_ps(table.0, bytes);
        let second = _mm256_permutevar8x32_ps(table.1, bytes);
        _mm256_blendv_ps(first, second, _mm256_castsi256_ps(_mm256_slli_epi32::<28>(bytes)))
    }
    #[inline(always)]
    unsafe fn level_high(table: Self::Levels, bytes: __m256i) -> __m256 {
        Self::level_low(table, _mm256_srli_epi32::<4>(bytes))
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const u8) {
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[inline(always)]
    unsafe fn prefetch_far(at: *const u8) {
        _mm_prefetch::<_MM_HINT_T1>(at.cast());
    }
}
