//! The two layouts this plugin owns, so that a host lowers layouts without a GPU.
//!
//! `ref.f32` is a weight decoded to f32, row after row. `ref.columns` are
//! activation rows turned on their side: f32 `[K][M]`.

use std::sync::OnceLock;

use cajeta_plugin_api::abi::layout::LayoutKind;
use cajeta_plugin_api::abi::{FormatId, Layout, LayoutId, Shape};
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::{Answer, Fault};

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};

/// A weight decoded to f32.
pub const EXPANDED: LayoutId = LayoutId::OWN;
/// Activations, column after column.
pub const COLUMNS: LayoutId = LayoutId(LayoutId::OWN.0 + 1);

/// Both, in id order.
pub fn all() -> &'static [Layout] {
    static ALL: OnceLock<Vec<Layout>> = OnceLock::new();
    ALL.get_or_init(|| {
        let formats: Vec<FormatId> = decodable().map(|format| FormatId(format.id())).collect();
        let layout = |name, kind, formats| Layout {
            name: RStr::from_str(name),
            kind,
            sources: 1,
            formats,
            align: 256,
        };
        vec![
            layout("ref.f32", LayoutKind::WEIGHT, RSlice::from_slice(formats.leak())),
            layout("ref.columns", LayoutKind::ACTIVATION, RSlice::EMPTY),
        ]
    })
}

/// The weight formats this plugin computes with: all that decode.
pub fn decodable() -> impl Iterator<Item = Format> {
    Format::ALL.iter().copied().filter(|format| format.is_decodable())
}

/// Bytes of a layout for its sources.
///
/// # Errors
/// Not a layout of this plugin, not exactly one source, or an overflow.
pub fn bytes(layout: LayoutId, shapes: &[Shape]) -> Answer<u64> {
    if layout != EXPANDED && layout != COLUMNS {
        return Err(Fault::invalid(format!("layout {} is not one of this plugin's two", layout.0)));
    }
    let [shape] = shapes else {
        return Err(Fault::invalid(format!("{} sources given, this layout has 1", shapes.len())));
    };
    elements(shape.rows, shape.width)
}

/// Bytes of `rows` x `width` f32.
pub fn elements(rows: u64, width: u64) -> Answer<u64> {
    rows.checked_mul(width)
        .and_then(|elements| elements.checked_mul(4))
        .ok_or_else(|| Fault::invalid(format!("{rows} rows of {width} f32 overflow 64 bits")))
}

/// Plain rows to columns, or back with the sizes exchanged: `to[c][r] = from[r][c]`.
pub fn transpose(from: &[u8], rows: usize, width: usize, to: &mut [u8]) {
    let from = from.as_chunks::<4>().0;
    let to = to.as_chunks_mut::<4>().0;
    for (row, values) in from.chunks_exact(width.max(1)).take(rows).enumerate() {
        for (column, value) in values.iter().enumerate() {
            if let Some(place) = to.get_mut(column * rows + row) {
                *place = *value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_refusals() {
        let shape = Shape { format: FormatId::NONE, rows: 3, width: 5 };
        assert_eq!(bytes(COLUMNS, &[shape]), Ok(60));
        assert!(bytes(COLUMNS, &[]).is_err());
        assert!(bytes(LayoutId(LayoutId::OWN.0 + 2), &[shape]).is_err());
        assert!(bytes(EXPANDED, &[Shape { rows: u64::MAX, ..shape }]).is_err());
    }

    #[test]
    fn there_and_back() {
        let rows: Vec<u8> = (0..24).collect();
        let (mut columns, mut back) = (vec![0; 24], vec![0; 24]);
        transpose(&rows, 2, 3, &mut columns);
        assert_eq!(columns[4..8], rows[12..16]);
        transpose(&columns, 3, 2, &mut back);
        assert_eq!(back, rows);
    }
}
