//! Q6_K: 256 values in 210 bytes, sixteen sub-blocks of 16 with a signed scale each.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use super::{Decode, Pair, half_at};
use crate::simd::Simd;

/// 128 bytes of low quant bits, 64 bytes of high bits, 16 scales (i8), `d` (f16).
/// In each half, value `l + 32 r` has its low four bits in low byte
/// `l + 32 (r % 2)`, half `r / 2`, and its high two at bit `2 r` of high byte `l`.
#[derive(Clone, Copy)]
pub(crate) struct Q6K;

impl Decode for Q6K {
    const LEN: usize = 256;
    const BYTES: usize = 210;
    /// `d * scale` of each sub-block.
    const SCALES: usize = 16;
    const OPEN: usize = 256;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        for index in 0..count {
            let block = blocks.add(index * Self::BYTES);
            let out = out.add(index * Self::SCALES);
            let d = S::splat(half_at::<S>(block.add(208)));
            let mut at = 0;
            while at < 16 {
                S::store(out.add(at), S::mul(S::load_i8(block.add(192 + at)), d));
                at += S::LANES;
            }
        }
    }

    /// The quants less 32, a signed byte each.
    #[inline(always)]
    unsafe fn open<S: Simd>(block: *const u8, room: *mut u8) -> *const u8 {
        for half in 0..2 {
            S::six_bits(block.add(64 * half), block.add(128 + 32 * half), room.add(128 * half));
        }
        room
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        let first_at = 2 * index * S::LANES;
        let second_at = first_at + S::LANES;
        let value = |at: usize| S::mul(S::load_i8(block.add(at)), S::splat(*scales.add(at / 16)));
        Pair { first_at, first: value(first_at), second_at, second: value(second_at) }
    }
}
