//! F32, F16 and BF16 weights, in runs of 32 values.
#![allow(unsafe_op_in_unsafe_fn)] // the trait's Safety section is the proof of each body

use half::{bf16, f16};

use super::{Decode, Pair};
use crate::simd::Simd;

macro_rules! plain {
    ($(#[$doc:meta])* $name:ident, $bytes:literal, $element:ty, $load:ident, $one:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl Decode for $name {
            const LEN: usize = 32;
            const BYTES: usize = 32 * $bytes;
            const SCALES: usize = 0;
            const RAGGED: bool = true;

            #[inline(always)]
            unsafe fn scales<S: Simd>(_blocks: *const u8, _count: usize, _out: *mut f32) {}

            #[inline(always)]
            unsafe fn pair<S: Simd>(block: *const u8, _scales: *const f32, index: usize) -> Pair<S> {
                let first_at = 2 * index * S::LANES;
                let second_at = first_at + S::LANES;
                let values = block.cast::<$element>();
                Pair {
                    first_at,
                    first: S::$load(values.add(first_at)),
                    second_at,
                    second: S::$load(values.add(second_at)),
                }
            }

            #[inline(always)]
            unsafe fn one(run: *const u8, index: usize) -> f32 {
                let bits = run.cast::<$element>().add(index).read_unaligned();
                $one(bits)
            }
        }
    };
}

plain! {
    /// IEEE binary32.
    F32, 4, f32, load, std::convert::identity
}
plain! {
    /// IEEE binary16.
    F16, 2, u16, load_f16, |bits| f16::from_bits(bits).to_f32_const()
}
plain! {
    /// bfloat16.
    Bf16, 2, u16, load_bf16, |bits| bf16::from_bits(bits).to_f32_const()
}
