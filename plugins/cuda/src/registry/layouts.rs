//! The layouts this plugin owns: weights in tiles of 16 output features (`plugins/kernels/common/tile16.h`) and packed
//! activation rows (`rows.h`).

use std::sync::OnceLock;

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_plugin_api::abi::layout::LayoutKind;
use cajeta_plugin_api::abi::{FormatId, Layout, LayoutId, Shape};
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::{Answer, Fault};

/// Output features of a tile.
const FEATURES: u64 = 16;
/// Inputs of a unit.
pub(crate) const UNIT: u64 = 256;

/// Formats that are relaid; format `TILED[i]` in layout `OWN + i`.
pub(super) const TILED: [Format; 2] = [Format::Q4_K, Format::Q6_K];

/// Packed activation rows.
pub(crate) const PACKED: LayoutId = LayoutId(LayoutId::OWN.0 + TILED.len() as u32);
/// Most rows that are packed.
pub(crate) const ROWS_MOST: u64 = 16;
/// Bytes of a unit of a packed row: a high and a low byte an input, a sum of each 16, what a step is worth.
pub(crate) const ROW_UNIT: u64 = 2 * UNIT + UNIT / 16 * 4 + 4;
/// Times the packed rows lie there.
const REPLICAS: u64 = 4;

/// Rows that so many are filled up to.
pub(crate) fn padded(rows: u64) -> u64 {
    match rows {
        0..=4 => 4,
        5..=8 => 8,
        _ => ROWS_MOST,
    }
}

/// How a format's weights lie when relaid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tile {
    pub(crate) layout: LayoutId,
    /// Bytes of a unit: a tile's features by [`UNIT`] inputs.
    pub(crate) bytes: u64,
}

impl Tile {
    /// Tiles of so many features.
    pub(crate) fn count(features: u64) -> u64 {
        features.div_ceil(FEATURES)
    }
}

/// The relaid form of a format, if there is one.
pub(crate) fn tile_of(format: Format) -> Option<Tile> {
    let index = TILED.iter().position(|tiled| *tiled == format)? as u32;
    let layout = LayoutId(LayoutId::OWN.0 + index);
    Some(match format {
        Format::Q4_K => Tile { layout, bytes: 2368 },
        _ => Tile { layout, bytes: 3360 },
    })
}

/// All layouts, in id order.
pub(crate) fn layouts() -> &'static [Layout] {
    static ALL: OnceLock<Vec<Layout>> = OnceLock::new();
    ALL.get_or_init(|| {
        let layout = |format: Format| Layout {
            name: RStr::from_str(String::leak(format!("{}.tile16", format.name().to_lowercase()))),
            kind: LayoutKind::WEIGHT,
            sources: 1,
            formats: RSlice::from_slice(Vec::leak(vec![FormatId(format.id())])),
            align: 256,
        };
        let packed = Layout {
            name: RStr::from_str("rows16"),
            kind: LayoutKind::ACTIVATION,
            sources: 1,
            formats: RSlice::EMPTY,
            align: 256,
        };
        TILED.into_iter().map(layout).chain([packed]).collect()
    })
}

/// Bytes of a layout for its source.
///
/// # Errors
/// A layout that is not this plugin's, another format or width than it arranges, an overflow.
pub(crate) fn layout_bytes(layout: LayoutId, shapes: &[Shape]) -> Answer<u64> {
    if layout == PACKED {
        return packed_bytes(shapes);
    }
    let format = layout.0.checked_sub(LayoutId::OWN.0).and_then(|index| TILED.get(index as usize).copied());
    let Some((format, tile)) = format.and_then(|format| Some((format, tile_of(format)?))) else {
        return Err(Fault::unsupported(format!("layout {} is not this backend's", layout.0)));
    };
    let [shape] = shapes else {
        return Err(Fault::invalid(format!("{} sources given, this layout has 1", shapes.len())));
    };
    if shape.format.0 != format.id() || !shape.width.is_multiple_of(UNIT) {
        return Err(Fault::invalid(format!(
            "rows of {} values in format {}: expected {} and a multiple of {UNIT}",
            shape.width,
            shape.format.0,
            format.name()
        )));
    }
    Tile::count(shape.rows)
        .checked_mul(shape.width / UNIT)
        .and_then(|units| units.checked_mul(tile.bytes))
        .ok_or_else(|| Fault::invalid(format!("{} rows of {} overflow 64 bits", shape.rows, shape.width)))
}

fn packed_bytes(shapes: &[Shape]) -> Answer<u64> {
    let [shape] = shapes else {
        return Err(Fault::invalid(format!("{} sources given, packed rows have 1", shapes.len())));
    };
    if shape.rows > ROWS_MOST || !shape.width.is_multiple_of(UNIT) {
        return Err(Fault::unsupported(format!(
            "{} rows of {} values: at most {ROWS_MOST} of a multiple of {UNIT} are packed",
            shape.rows, shape.width
        )));
    }
    (shape.width / UNIT)
        .checked_mul(padded(shape.rows) * ROW_UNIT * REPLICAS)
        .ok_or_else(|| Fault::invalid(format!("rows of {} values overflow 64 bits", shape.width)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_hand() {
        let shape = |format: Format, rows, width| Shape { format: FormatId(format.id()), rows, width };
        let q4 = layout_bytes(LayoutId::OWN, &[shape(Format::Q4_K, 17, 512)]);
        assert_eq!(q4, Ok(2 * 2 * 2368));
        let q6 = layout_bytes(LayoutId(LayoutId::OWN.0 + 1), &[shape(Format::Q6_K, 16, 256)]);
        assert_eq!(q6, Ok(3360));
        assert!(layout_bytes(LayoutId::OWN, &[shape(Format::Q6_K, 16, 256)]).is_err());
        assert!(layout_bytes(LayoutId::OWN, &[shape(Format::Q4_K, 16, 100)]).is_err());
        assert!(layout_bytes(LayoutId::OWN, &[shape(Format::Q4_K, u64::MAX, 1 << 40)]).is_err());
        assert!(layout_bytes(LayoutId(300), &[]).is_err());
        let rows = |rows, width| layout_bytes(PACKED, &[Shape { format: FormatId::NONE, rows, width }]);
        assert_eq!(rows(5, 512), Ok(2 * 8 * 580 * 4));
        assert!(rows(17, 512).is_err() && rows(4, 500).is_err());
    }
}
