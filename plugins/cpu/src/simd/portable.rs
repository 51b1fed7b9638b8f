//! The portable tier: plain Rust the compiler vectorises for whatever it builds for.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use half::{bf16, f16};

use super::Simd;

/// Eight lanes in an array; products and sums are rounded apart, because a
/// fused one is a library call where the target has no such instruction.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

type F = [f32; 8];
type I = [i32; 8];

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> F {
    std::array::from_fn(f)
}

impl Simd for Portable {
    const LANES: usize = 8;
    type F = F;
    type I = I;
    type Lanes = [bool; 8];
    type Nibble = (f32, f32);
    type Levels = [f32; 16];

    #[inline(always)]
    unsafe fn zero() -> F {
        [0.0; 8]
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> F {
        [value; 8]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> F {
        from.cast::<F>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: F) {
        to.cast::<F>().write_unaligned(value);
    }
    #[inline(always)]
    unsafe fn load_first(count: usize, from: *const f32, fill: f32) -> F {
        let mut lanes = [fill; 8];
        std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
        lanes
    }
    #[inline(always)]
    unsafe fn store_first(count: usize, to: *mut f32, value: F) {
        std::ptr::copy_nonoverlapping(value.as_ptr(), to, count);
    }

    #[inline(always)]
    unsafe fn add(a: F, b: F) -> F {
        each(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: F, b: F) -> F {
        each(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: F, b: F) -> F {
        each(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: F, b: F) -> F {
        each(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn fma(a: F, b: F, c: F) -> F {
        each(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn max(a: F, b: F) -> F {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn min(a: F, b: F) -> F {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn sum(a: F) -> f32 {
        ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
    }
    #[inline(always)]
    unsafe fn top(a: F) -> f32 {
        a.into_iter().fold(f32::NEG_INFINITY, f32::max)
    }
    #[inline(always)]
    unsafe fn equal(a: F, b: F) -> u32 {
        (0..8).fold(0, |mask, i| mask | u32::from(a[i] == b[i]) << i)
    }
    #[inline(always)]
    unsafe fn round(a: F) -> F {
        // Adding and taking away 1.5 * 2^23 rounds to the nearest whole number.
        const MAGIC: f32 = 12_582_912.0;
        each(|i| (a[i] + MAGIC) - MAGIC)
    }
    #[inline(always)]
    unsafe fn scale_by_power(a: F, n: F) -> F {
        each(|i| a[i] * f32::from_bits(((n[i] as i32 + 127) << 23).cast_unsigned()))
    }

    #[inline(always)]
    unsafe fn load_f16(from: *const u16) -> F {
        let bits = from.cast::<[u16; 8]>().read_unaligned();
        each(|i| f16::from_bits(bits[i]).to_f32_const())
    }
    #[inline(always)]
    unsafe fn store_f16(to: *mut u16, value: F) {
        let bits: [u16; 8] = std::array::from_fn(|i| f16::from_f32_const(value[i]).to_bits());
        to.cast::<[u16; 8]>().write_unaligned(bits);
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> F {
        let bits = from.cast::<[u16; 8]>().read_unaligned();
        each(|i| bf16::from_bits(bits[i]).to_f32_const())
    }
    #[inline(always)]
    unsafe fn load_i8(from: *const u8) -> F {
        let bytes = from.cast::<[i8; 8]>().read_unaligned();
        each(|i| f32::from(bytes[i]))
    }
    #[inline(always)]
    unsafe fn scaled_bytes(bytes: [u64; 2], factors: [f32; 2], to: *mut f32) {
        for (half, (bytes, factor)) in bytes.into_iter().zip(factors).enumerate() {
            for (i, byte) in bytes.to_le_bytes().into_iter().enumerate() {
                *to.add(8 * half + i) = f32::from(byte) * factor;
            }
        }
    }
    #[inline(always)]
    unsafe fn f16(bits: u16) -> f32 {
        f16::from_bits(bits).to_f32_const()
    }

    #[inline(always)]
    unsafe fn bytes(from: *const u8) -> I {
        from.cast::<[u8; 8]>().read_unaligned().map(i32::from)
    }
    #[inline(always)]
    unsafe fn and(a: I, mask: i32) -> I {
        a.map(|v| v & mask)
    }
    #[inline(always)]
    unsafe fn or(a: I, b: I) -> I {
        std::array::from_fn(|i| a[i] | b[i])
    }
    #[inline(always)]
    unsafe fn shr<const BITS: u32>(a: I) -> I {
        a.map(|v| v >> BITS)
    }
    #[inline(always)]
    unsafe fn shl<const BITS: u32>(a: I) -> I {
        a.map(|v| v << BITS)
    }
    #[inline(always)]
    unsafe fn shr_by(a: I, bits: u32) -> I {
        a.map(|v| v >> bits)
    }
    #[inline(always)]
    unsafe fn to_f32(a: I) -> F {
        a.map(|v| v as f32)
    }

    #[inline(always)]
    unsafe fn lanes(bits: u32) -> [bool; 8] {
        std::array::from_fn(|i| bits >> i & 1 != 0)
    }
    #[inline(always)]
    unsafe fn bit_set(a: I, bit: u32) -> [bool; 8] {
        a.map(|v| v >> bit & 1 != 0)
    }
    #[inline(always)]
    unsafe fn bit_clear(a: I, bit: u32) -> [bool; 8] {
        a.map(|v| v >> bit & 1 == 0)
    }
    #[inline(always)]
    unsafe fn add_where(lanes: [bool; 8], a: F, b: F) -> F {
        each(|i| if lanes[i] { a[i] + b[i] } else { a[i] })
    }

    #[inline(always)]
    unsafe fn nibble(d: f32, m: f32) -> (f32, f32) {
        (d, m)
    }
    #[inline(always)]
    unsafe fn low((d, m): (f32, f32), bytes: I) -> F {
        each(|i| (bytes[i] & 15) as f32 * d + m)
    }
    #[inline(always)]
    unsafe fn high((d, m): (f32, f32), bytes: I) -> F {
        each(|i| (bytes[i] >> 4) as f32 * d + m)
    }
    #[inline(always)]
    unsafe fn levels(values: &[f32; 16], d: f32) -> [f32; 16] {
        values.map(|value| value * d)
    }
    #[inline(always)]
    unsafe fn level_low(table: [f32; 16], bytes: I) -> F {
        each(|i| table[(bytes[i] & 15) as usize])
    }
    #[inline(always)]
    unsafe fn level_high(table: [f32; 16], bytes: I) -> F {
        each(|i| table[(bytes[i] >> 4 & 15) as usize])
    }

    #[inline(always)]
    unsafe fn prefetch(_at: *const u8) {}
    #[inline(always)]
    unsafe fn prefetch_far(_at: *const u8) {}
}
