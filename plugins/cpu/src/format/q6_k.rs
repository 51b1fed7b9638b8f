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
    /// `d * scale` of each sub-block, then -32 times that.
    const SCALES: usize = 32;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        for index in 0..count {
            let block = blocks.add(index * Self::BYTES);
            let out = out.add(index * Self::SCALES);
            let d = S::splat(half_at::<S>(block.add(208)));
            let mut at = 0;
            while at < 16 {
                let scale = S::mul(S::load_i8(block.add(192 + at)), d);
                S::store(out.add(at), scale);
                S::store(out.add(16 + at), S::mul(scale, S::splat(-32.0)));
                at += S::LANES;
            }
        }
    }

    /// Pairs run over (half, lane group, run parity): a pair is runs `p` and
    /// `p + 2` of one half, which share their low bytes.
    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        let groups = 32 / S::LANES;
        let half = index / (2 * groups);
        let group = index % (2 * groups) / 2;
        let parity = index % 2;
        let at = group * S::LANES;
        let low = S::bytes(block.add(64 * half + 32 * parity + at));
        let high = S::bytes(block.add(128 + 32 * half + at));
        let (top_first, top_second) = if parity == 0 {
            (S::and(S::shl::<4>(high), 0x30), S::and(high, 0x30))
        } else {
            (S::and(S::shl::<2>(high), 0x30), S::and(S::shr::<2>(high), 0x30))
        };
        let sub_block = |run: usize| scales.add(8 * half + 2 * run + at / 16);
        let (first, second) = (sub_block(parity), sub_block(parity + 2));
        Pair {
            first_at: 128 * half + 32 * parity + at,
            first: value::<S>(S::or(S::and(low, 15), top_first), first),
            second_at: 128 * half + 32 * (parity + 2) + at,
            second: value::<S>(S::or(S::shr::<4>(low), top_second), second),
        }
    }
}

/// `(quant - 32) * scale`.
#[inline(always)]
unsafe fn value<S: Simd>(quant: S::I, scale: *const f32) -> S::F {
    S::fma(S::to_f32(quant), S::splat(*scale), S::splat(*scale.add(16)))
}
