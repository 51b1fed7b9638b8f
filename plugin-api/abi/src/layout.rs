//! Layouts a plugin owns: how it arranges weights, activations or K/V blocks.

use abi_stable::StableAbi;
use abi_stable::std_types::{RSlice, RStr};

use crate::ids::FormatId;

/// What a layout arranges.
#[repr(transparent)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LayoutKind(pub u32);

impl LayoutKind {
    /// One or several weight tensors, produced by a `relayout` row.
    pub const WEIGHT: LayoutKind = LayoutKind(1);
    /// Activation rows, produced by a `pack` row or as the output of another row.
    pub const ACTIVATION: LayoutKind = LayoutKind(2);
    /// A K or V block of 16 positions.
    pub const KV: LayoutKind = LayoutKind(3);
}

/// A plugin-owned layout. The host allocates `layout_bytes` for it and never
/// looks inside.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Layout {
    /// Unique within the plugin.
    pub name: RStr<'static>,
    /// What it arranges.
    pub kind: LayoutKind,
    /// Source tensors packed together (1, or 3 for q|k|v, 2 for gate|up). 1 for
    /// activations and K/V.
    pub sources: u32,
    /// Formats of the sources it can be made from. Empty for activations and K/V.
    pub formats: RSlice<'static, FormatId>,
    /// Alignment of its first byte.
    pub align: u64,
}

/// Shape of one source of a layout.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Storage format of a weight, [`FormatId::NONE`] for activations and K/V.
    pub format: FormatId,
    /// Rows: output features of a weight, activation rows, or K/V heads.
    pub rows: u64,
    /// Values in a row: input features, width, or head size.
    pub width: u64,
}
