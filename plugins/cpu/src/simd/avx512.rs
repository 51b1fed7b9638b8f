//! The AVX-512 tier: sixteen lanes, nibbles looked up in a register.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use std::arch::x86_64::*;

use super::Simd;

/// AVX-512 F, BW, VL and DQ with FMA and F16C.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

impl Simd for Avx512 {
    const LANES: usize = 16;
    type F = __m512;
    type I = __m512i;
    type Lanes = __mmask16;
    type Nibble = __m512;
    type Levels = __m512;

    #[inline(always)]
    unsafe fn zero() -> __m512 {
        _mm512_setzero_ps()
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> __m512 {
        _mm512_set1_ps(value)
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> __m512 {
        _mm512_loadu_ps(from)
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: __m512) {
        _mm512_storeu_ps(to, value);
    }
    #[inline(always)]
    unsafe fn load_first(count: usize, from: *const f32, fill: f32) -> __m512 {
        _mm512_mask_loadu_ps(_mm512_set1_ps(fill), first(count), from)
    }
    #[inline(always)]
    unsafe fn store_first(count: usize, to: *mut f32, value: __m512) {
        _mm512_mask_storeu_ps(to, first(count), value);
    }

    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        _mm512_add_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        _mm512_sub_ps(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        _mm512_mul_ps(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        _mm512_div_ps(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        _mm512_fmadd_ps(a, b, c)
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        _mm512_max_ps(a, b)
    }
    #[inline(always)]
    unsafe fn min(a: __m512, b: __m512) -> __m512 {
        _mm512_min_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sum(a: __m512) -> f32 {
        _mm512_reduce_add_ps(a)
    }
    #[inline(always)]
    unsafe fn top(a: __m512) -> f32 {
        _mm512_reduce_max_ps(a)
    }
    #[inline(always)]
    unsafe fn equal(a: __m512, b: __m512) -> u32 {
        u32::from(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b))
    }
    #[inline(always)]
    unsafe fn round(a: __m512) -> __m512 {
        _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: __m512, n: __m512) -> __m512 {
        _mm512_scalef_ps(a, n)
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> __m512 {
        _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()))
    }
    #[inline(always)]
    unsafe fn store_f16(to: *mut u16, value: __m512) {
        let half = _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(value);
        _mm256_storeu_si256(to.cast(), half);
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> __m512 {
        let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> __m512 {
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast())))
    }
    #[inline(always)]
    unsafe fn scaled_bytes(bytes: [u64; 2], factors: [f32; 2], to: *mut f32) {
        let bytes = _mm_set_epi64x(bytes[1].cast_signed(), bytes[0].cast_signed());
        let high = _mm512_set1_ps(factors[1]);
        let factors = _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(factors[0]), high);
        _mm512_storeu_ps(to, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), factors));
    }
    #[inline(always)]
    unsafe fn f16(bits: u16) -> f32 {
        _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(i32::from(bits))))
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> __m512i {
        _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))
    }
    #[inline(always)]
    unsafe fn and(a: __m512i, mask: i32) -> __m512i {
        _mm512_and_si512(a, _mm512_set1_epi32(mask))
    }
    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        _mm512_or_si512(a, b)
    }
    #[inline(always)]
    unsafe fn shr<const BITS: u32>(a: __m512i) -> __m512i {
        _mm512_srli_epi32::<BITS>(a)
    }
    #[inline(always)]
    unsafe fn shl<const BITS: u32>(a: __m512i) -> __m512i {
        _mm512_slli_epi32::<BITS>(a)
    }
    #[inline(always)]
    unsafe fn shr_by(a: __m512i, bits: u32) -> __m512i {
        _mm512_srl_epi32(a, _mm_cvtsi32_si128(bits.cast_signed()))
    }
    #[inline(always)]
    unsafe fn to_f32(a: __m512i) -> __m512 {
        _mm512_cvtepi32_ps(a)
    }

    #[inline(always)]
    unsafe fn lanes(bits: u32) -> __mmask16 {
        bits as u16
    }
    #[inline(always)]
    unsafe fn bit_set(a: __m512i, bit: u32) -> __mmask16 {
        _mm512_test_epi32_mask(a, _mm512_set1_epi32(1 << bit))
    }
    #[inline(always)]
    unsafe fn bit_clear(a: __m512i, bit: u32) -> __mmask16 {
        _mm512_testn_epi32_mask(a, _mm512_set1_epi32(1 << bit))
    }
    #[inline(always)]
    unsafe fn add_where(lanes: __mmask16, a: __m512, b: __m512) -> __m512 {
        _mm512_mask_add_ps(a, lanes, a, b)
    }

    #[inline(always)]
    unsafe fn nibble(d: f32, m: f32) -> __m512 {
        let quants = _mm512_setr_ps(
            0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0,
        );
        _mm512_fmadd_ps(quants, _mm512_set1_ps(d), _mm512_set1_ps(m))
    }
    #[inline(always)]
    unsafe fn low(table: __m512, bytes: __m512i) -> __m512 {
        // The lookup takes the low four bits of each index.
        _mm512_permutexvar_ps(bytes, table)
    }
    #[inline(always)]
    unsafe fn high(table: __m512, bytes: __m512i) -> __m512 {
        _mm512_permutexvar_ps(_mm512_srli_epi32::<4>(bytes), table)
    }
    #[inline(always)]
    unsafe fn levels(values: &[f32; 16], d: f32) -> __m512 {
        _mm512_mul_ps(_mm512_loadu_ps(values.as_ptr()), _mm512_set1_ps(d))
    }
    #[inline(always)]
    unsafe fn level_low(table: __m512, bytes: __m512i) -> __m512 {
        Self::low(table, bytes)
    }
    #[inline(always)]
    unsafe fn level_high(table: __m512, bytes: __m512i) -> __m512 {
        Self::high(table, bytes)
    }
    #[inline(always)]
    unsafe fn quarter(d: f32, m: f32, bytes: __m512i) -> __m512 {
        // The lookup's index has four bits: the table does not care for the upper two.
        let quants =
            _mm512_setr_ps(0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0);
        Self::low(_mm512_fmadd_ps(quants, _mm512_set1_ps(d), _mm512_set1_ps(m)), bytes)
    }
    #[inline(always)]
    unsafe fn next_quarter(d: f32, m: f32, bytes: __m512i) -> __m512 {
        let quants =
            _mm512_setr_ps(0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0);
        Self::low(_mm512_fmadd_ps(quants, _mm512_set1_ps(d), _mm512_set1_ps(m)), bytes)
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

/// The mask of the first `count` (< 16) lanes.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1u32 << count) - 1) as u16
}
