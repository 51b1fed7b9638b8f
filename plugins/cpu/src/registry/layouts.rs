//! The layouts this plugin owns: a weight decoded to f32 in the order in which the prefill kernel of a tier reads it.
//!
//! A tile is as many weight rows as the tier's kernel takes at once, `[K / 16][rows][16]`, padded with zeros in K; a
//! last tile of fewer rows repeats the last of them.

use std::sync::OnceLock;

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_plugin_api::abi::layout::LayoutKind;
use cajeta_plugin_api::abi::{FormatId, Layout, LayoutId, Shape};
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::{Answer, Fault};

use crate::kernel::table::{FORMATS, Kernels};
use crate::kernel::tile::STEP;
use crate::tier::Tier;

/// Indices in [`FORMATS`] of what is decoded on its way to a panel; f32 is there already.
pub(crate) fn widened() -> impl Iterator<Item = usize> {
    (0..FORMATS.len()).filter(|&index| FORMATS[index] != Format::F32)
}

/// The layout of a tier.
pub(crate) fn wide(tier: Tier) -> LayoutId {
    let index = Tier::ALL.iter().position(|&known| known == tier).unwrap_or(0);
    LayoutId(LayoutId::OWN.0 + index as u32)
}

/// Bytes of a weight in a tier's layout; nothing where they overflow.
pub(crate) fn wide_bytes(tier: Tier, rows: u64, width: u64) -> Option<u64> {
    let tile_rows = Kernels::of(tier).tile_rows as u64;
    let rows = rows.checked_next_multiple_of(tile_rows)?;
    rows.checked_mul(width.checked_next_multiple_of(STEP as u64)?)?.checked_mul(4)
}

/// All layouts, in id order: one for each tier.
pub(crate) fn layouts() -> &'static [Layout] {
    static ALL: OnceLock<Vec<Layout>> = OnceLock::new();
    ALL.get_or_init(|| {
        let formats: Vec<FormatId> = widened().map(|index| FormatId(FORMATS[index].id())).collect();
        let formats = RSlice::from_slice(Vec::leak(formats));
        let layout = |&tier: &Tier| Layout {
            name: RStr::from_str(String::leak(format!("wide{}", Kernels::of(tier).tile_rows))),
            kind: LayoutKind::WEIGHT,
            sources: 1,
            formats,
            align: 64,
        };
        Tier::ALL.iter().map(layout).collect()
    })
}

/// Bytes of a layout for its source.
///
/// # Errors
/// A layout that is not this plugin's, not exactly one source of a format that is decoded, an overflow.
pub(crate) fn layout_bytes(layout: LayoutId, shapes: &[Shape]) -> Answer<u64> {
    let tier = layout.0.checked_sub(LayoutId::OWN.0).and_then(|index| Tier::ALL.get(index as usize));
    let Some(&tier) = tier else {
        let known = Tier::ALL.len();
        return Err(Fault::unsupported(format!("layout {} is not one of this backend's {known}", layout.0)));
    };
    let [shape] = shapes else {
        return Err(Fault::invalid(format!("{} sources given, this layout has 1", shapes.len())));
    };
    if !widened().any(|index| FORMATS[index].id() == shape.format.0) {
        return Err(Fault::unsupported(format!("format {} is not decoded here", shape.format.0)));
    }
    wide_bytes(tier, shape.rows, shape.width)
        .ok_or_else(|| Fault::invalid(format!("{} rows of {} overflow 64 bits", shape.rows, shape.width)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_hand() {
        let shape = |format: Format, rows, width| Shape { format: FormatId(format.id()), rows, width };
        // The portable tile has four rows.
        let bytes = layout_bytes(wide(Tier::Portable), &[shape(Format::Q4_K, 5, 256)]);
        assert_eq!(bytes, Ok(8 * 256 * 4));
        assert_eq!(layout_bytes(wide(Tier::Portable), &[shape(Format::F16, 4, 17)]), Ok(4 * 32 * 4));
        assert!(layout_bytes(wide(Tier::Portable), &[shape(Format::F32, 4, 16)]).is_err());
        assert!(layout_bytes(wide(Tier::Portable), &[shape(Format::Q4_K, u64::MAX, 256)]).is_err());
        assert!(layout_bytes(wide(Tier::Portable), &[]).is_err());
        assert!(layout_bytes(LayoutId(300), &[shape(Format::Q4_K, 5, 256)]).is_err());
    }

    #[test]
    fn every_tier_has_a_layout_of_its_own() {
        let names: std::collections::HashSet<&str> =
            layouts().iter().map(|layout| layout.name.as_str()).collect();
        assert_eq!((names.len(), layouts().len()), (Tier::ALL.len(), Tier::ALL.len()));
    }
}
