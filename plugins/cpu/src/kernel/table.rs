//! Every kernel of every tier as plain function pointers: the one place where
//! generic bodies meet `#[target_feature]`.

use cajeta_plugin_api::catalog::quant::Format;

use crate::format::{
    Bf16, CHUNK, CHUNK_SCALES, Decode, F16, F32, Iq4Nl, Iq4Xs, Mxfp4, Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1,
    Q5K, Q6K, Q8_0,
};
use crate::kernel::attention::DenseArgs;
use crate::kernel::dot::DotArgs;
use crate::kernel::{attention, dot, elementwise, rotate, tile};
#[cfg(target_arch = "x86_64")]
use crate::simd::{Avx2, Avx512};
use crate::simd::{Portable, Simd};
use crate::tier::Tier;

/// Activation columns one pass of `dot` takes at most.
pub(crate) const COLUMNS: usize = 4;

/// Kernels over one weight format.
pub(crate) struct FormatKernels {
    /// By columns - 1: a group of `rows` weight rows.
    pub(crate) dot: [unsafe fn(&DotArgs); COLUMNS],
    /// As the first of `dot`, asking for weights from further ahead where the tier has such a kernel.
    pub(crate) far: unsafe fn(&DotArgs),
    /// By columns - 1: one weight row.
    pub(crate) dot_one: [unsafe fn(&DotArgs); COLUMNS],
    /// By columns - 1: weight rows of a group.
    pub(crate) rows: [usize; COLUMNS],
    /// [`tile::expand`].
    pub(crate) expand: unsafe fn(*const u8, usize, usize, *mut f32, usize),
}

/// Adds panel times packed activations to the sums of a tile.
pub(crate) type Tile = unsafe fn(*const f32, *const f32, usize, *mut f32, bool, *const f32);
/// [`attention::scores`] for a number of query heads.
pub(crate) type Scores = unsafe fn(*const f32, usize, &[*const u16], *mut f32, usize);
/// [`attention::values`] for a number of query heads.
pub(crate) type Values = unsafe fn(*const f32, usize, &[*const u16], usize, &[f32; 4], *mut f32);

/// All kernels of a tier.
pub(crate) struct Kernels {
    /// Weight rows of a tile.
    pub(crate) tile_rows: usize,
    /// Activation rows of the two tile widths.
    pub(crate) tile_widths: [usize; 2],
    /// The tiles, by width.
    pub(crate) tiles: [Tile; 2],
    pub(crate) pack: unsafe fn(*const f32, usize, usize, usize, *mut f32, usize),
    pub(crate) add: unsafe fn(*const f32, *const f32, *mut f32, usize),
    pub(crate) glu: unsafe fn(*const f32, *const f32, *mut f32, usize, bool),
    pub(crate) softcap: unsafe fn(*mut f32, usize, f32),
    pub(crate) norm: unsafe fn(*const f32, *const f32, *mut f32, usize, f32, f32),
    pub(crate) argmax: unsafe fn(*const f32, usize) -> u32,
    pub(crate) rotate_halves: unsafe fn(*mut f32, *const f32, *const f32, usize),
    pub(crate) rotate_pairs: unsafe fn(*mut f32, *const f32, *const f32, usize),
    pub(crate) widen: unsafe fn(*const u16, *mut f32, usize),
    pub(crate) narrow: unsafe fn(*const f32, *mut u16, usize),
    /// By query heads - 1.
    pub(crate) scores: [Scores; 4],
    /// By query heads - 1.
    pub(crate) values: [Values; 4],
    pub(crate) weights: unsafe fn(*mut f32, usize, f32, f32) -> (f32, f32),
    pub(crate) dense: unsafe fn(&DenseArgs),
    formats: [FormatKernels; FORMATS.len()],
}

/// The formats with kernels, in the order of the tables.
pub(crate) const FORMATS: [Format; 16] = [
    Format::F32,
    Format::F16,
    Format::BF16,
    Format::Q8_0,
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q5_1,
    Format::Q2_K,
    Format::Q3_K,
    Format::Q4_K,
    Format::Q5_K,
    Format::Q6_K,
    Format::IQ4_NL,
    Format::IQ4_XS,
    Format::MXFP4,
];

impl Kernels {
    /// The kernels of a tier. Callable on this machine only if the tier is supported.
    pub(crate) fn of(tier: Tier) -> &'static Kernels {
        match tier {
            Tier::Portable => &portable::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx2 => &avx2::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Tier::Avx512 => &avx512::KERNELS,
        }
    }

    /// The kernels over format `index` of [`FORMATS`].
    pub(crate) fn format(&self, index: usize) -> &FormatKernels {
        &self.formats[index]
    }
}

macro_rules! tier {
    (
        $module:ident, $simd:ty, features: $($feature:literal)?,
        dot rows: $r1:literal $r2:literal $r3:literal $r4:literal, far: $far:literal,
        tile: $mv:literal x $nr:literal, dense: $dmv:literal x $dnr:literal
    ) => {
        mod $module {
            #![allow(unsafe_op_in_unsafe_fn)]
            // Each wrapper has the Safety section of the body it calls: nothing
            // is added but the features, which the tier vouches for.
            use super::*;

            $(#[target_feature(enable = $feature)])?
            unsafe fn dot_of<D: Decode, const R: usize, const C: usize, const FAR: bool>(args: &DotArgs) {
                dot::dot::<$simd, D, R, C, FAR>(args);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn expand_of<D: Decode>(row: *const u8, from: usize, len: usize, panel: *mut f32, nr: usize) {
                tile::expand::<$simd, D>(row, from, len, panel, nr);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn tile_of<const MV: usize>(
                panel: *const f32, packed: *const f32, steps: usize, sums: *mut f32, fresh: bool, ahead: *const f32,
            ) {
                tile::tile::<$simd, MV, $nr>(panel, packed, steps, sums, fresh, ahead);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn pack(
                x: *const f32, stride: usize, rows: usize, len: usize, packed: *mut f32, width: usize,
            ) {
                tile::pack(x, stride, rows, len, packed, width);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn add(a: *const f32, b: *const f32, out: *mut f32, len: usize) {
                elementwise::add::<$simd>(a, b, out, len);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn glu(gate: *const f32, up: *const f32, out: *mut f32, len: usize, gelu: bool) {
                elementwise::glu::<$simd>(gate, up, out, len, gelu);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn softcap(x: *mut f32, len: usize, cap: f32) {
                elementwise::softcap::<$simd>(x, len, cap);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn norm(
                x: *const f32, weight: *const f32, out: *mut f32, len: usize, eps: f32, offset: f32,
            ) {
                elementwise::norm::<$simd>(x, weight, out, len, eps, offset);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn argmax(x: *const f32, len: usize) -> u32 {
                elementwise::argmax::<$simd>(x, len)
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn rotate_halves(head: *mut f32, cos: *const f32, sin: *const f32, half: usize) {
                rotate::halves::<$simd>(head, cos, sin, half);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn rotate_pairs(head: *mut f32, cos: *const f32, sin: *const f32, half: usize) {
                rotate::pairs(head, cos, sin, half);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn widen(from: *const u16, to: *mut f32, len: usize) {
                attention::widen::<$simd>(from, to, len);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn narrow(from: *const f32, to: *mut u16, len: usize) {
                attention::narrow::<$simd>(from, to, len);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn scores_of<const G: usize>(
                q: *const f32, dim: usize, keys: &[*const u16], out: *mut f32, stride: usize,
            ) {
                attention::scores::<$simd, G>(q, dim, keys, out, stride);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn values_of<const G: usize>(
                p: *const f32, stride: usize, values: &[*const u16], dim: usize, keep: &[f32; 4], acc: *mut f32,
            ) {
                attention::values::<$simd, G>(p, stride, values, dim, keep, acc);
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn weights(row: *mut f32, len: usize, cap: f32, maximum: f32) -> (f32, f32) {
                attention::weights::<$simd>(row, len, cap, maximum)
            }
            $(#[target_feature(enable = $feature)])?
            unsafe fn dense(args: &DenseArgs) {
                attention::dense::<$simd, $dmv, $dnr>(args);
            }

            const fn format<D: Decode>() -> FormatKernels {
                // `expand` and `dot` keep a chunk's scales in an array of this size.
                assert!(CHUNK % D::LEN == 0 && CHUNK / D::LEN * D::SCALES <= CHUNK_SCALES);
                FormatKernels {
                    dot: [if D::RAGGED { dot_of::<D, 4, 1, false> } else { dot_of::<D, $r1, 1, false> }, dot_of::<D, $r2, 2, false>, dot_of::<D, $r3, 3, false>, dot_of::<D, $r4, 4, false>],
                    far: if D::RAGGED { dot_of::<D, 4, 1, $far> } else { dot_of::<D, $r1, 1, $far> },
                    dot_one: [dot_of::<D, 1, 1, false>, dot_of::<D, 1, 2, false>, dot_of::<D, 1, 3, false>, dot_of::<D, 1, 4, false>],
                    rows: [if D::RAGGED { 4 } else { $r1 }, $r2, $r3, $r4],
                    expand: expand_of::<D>,
                }
            }

            pub(super) static KERNELS: Kernels = Kernels {
                tile_rows: $nr,
                tile_widths: [<$simd>::LANES, $mv * <$simd>::LANES],
                tiles: [tile_of::<1>, tile_of::<$mv>],
                pack,
                add,
                glu,
                softcap,
                norm,
                argmax,
                rotate_halves,
                rotate_pairs,
                widen,
                narrow,
                scores: [scores_of::<1>, scores_of::<2>, scores_of::<3>, scores_of::<4>],
                values: [values_of::<1>, values_of::<2>, values_of::<3>, values_of::<4>],
                weights,
                dense,
                formats: [
                    format::<F32>(), format::<F16>(), format::<Bf16>(), format::<Q8_0>(),
                    format::<Q4_0>(), format::<Q4_1>(), format::<Q5_0>(), format::<Q5_1>(),
                    format::<Q2K>(), format::<Q3K>(), format::<Q4K>(), format::<Q5K>(),
                    format::<Q6K>(), format::<Iq4Nl>(), format::<Iq4Xs>(), format::<Mxfp4>(),
                ],
            };
        }
    };
}

tier!(portable, Portable, features:, dot rows: 2 1 1 1, far: false, tile: 1 x 4, dense: 1 x 4);
#[cfg(target_arch = "x86_64")]
tier!(avx2, Avx2, features: "avx2,fma,f16c", dot rows: 4 2 1 1, far: true, tile: 2 x 6, dense: 2 x 6);
#[cfg(target_arch = "x86_64")]
tier!(
    avx512, Avx512, features: "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c",
    dot rows: 8 4 2 2, far: true, tile: 2 x 12, dense: 4 x 6
);
