//! Q3_K: 256 values in 110 bytes, sixteen sub-blocks of 16 with a signed scale each.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use super::q2_k::TwoRuns;
use super::{Decode, Pair, half_at, k_scales};
use crate::simd::Simd;

/// 32 bytes of third bits, 64 bytes of low bits laid out as Q2_K's quants, 12 bytes
/// of packed scales, `d` (f16); a value is `(q - 4) * scale * d`. The third bit of
/// value `l` of run `r` of half `h` is bit `4 h + r` of byte `l` of the third bits.
#[derive(Clone, Copy)]
pub(crate) struct Q3K;

impl Decode for Q3K {
    const LEN: usize = 256;
    const BYTES: usize = 110;
    /// `d * scale` of each sub-block, then -4 times that.
    const SCALES: usize = 32;

    #[inline(always)]
    unsafe fn scales<S: Simd>(blocks: *const u8, count: usize, out: *mut f32) {
        for index in 0..count {
            let block = blocks.add(index * Self::BYTES);
            let out = out.add(index * Self::SCALES);
            let bytes = k_scales::sixteen_signed(block.add(96)).map(u64::to_le);
            let d = S::splat(half_at::<S>(block.add(108)));
            let mut at = 0;
            while at < 16 {
                let scale = S::mul(S::load_i8(bytes.as_ptr().cast::<u8>().add(at)), d);
                S::store(out.add(at), scale);
                S::store(out.add(16 + at), S::mul(scale, S::splat(-4.0)));
                at += S::LANES;
            }
        }
    }

    #[inline(always)]
    unsafe fn pair<S: Simd>(block: *const u8, scales: *const f32, index: usize) -> Pair<S> {
        let place = TwoRuns::of::<S>(index);
        let low = S::shr_by(S::bytes(block.add(32 + 32 * place.half + place.at)), 2 * place.run as u32);
        let third = S::bytes(block.add(place.at));
        let bit = (4 * place.half + place.run) as u32;
        let (first, second) = (scales.add(place.sub_block(0)), scales.add(place.sub_block(1)));
        // Four less where the third bit is clear.
        Pair {
            first_at: place.value(0),
            first: S::add_where(
                S::bit_clear(third, bit),
                S::quarter(*first, 0.0, low),
                S::splat(*first.add(16)),
            ),
            second_at: place.value(1),
            second: S::add_where(
                S::bit_clear(third, bit + 1),
                S::next_quarter(*second, 0.0, low),
                S::splat(*second.add(16)),
            ),
        }
    }
}
