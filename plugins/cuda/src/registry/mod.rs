//! The kernel registry: which rows there are, as entries for this crate and as rows for the host. Both are made once,
//! in one order.

mod name;
mod layouts;
mod wiring;
mod streams;
mod rows_streams;
mod manifest;

pub(crate) use layouts::{PACKED, ROW_UNIT, ROWS_MOST, Tile, UNIT, layout_bytes, layouts, padded, tile_of};
pub(crate) use manifest::manifest;

use std::sync::OnceLock;

use cajeta_plugin_api::abi::{Regime, Row};
use cajeta_plugin_api::catalog::quant::Format;

/// What a row computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Rows of a table.
    Embed,
    /// RMS norm.
    Norm,
    /// Sum.
    Add,
    /// Gated unit.
    Glu { gelu: bool },
    /// Rows, in order or by index.
    Copy,
    /// Rotation and append.
    RopeAppend { pairs: bool },
    /// Attention over block tables.
    Attention,
    /// Largest logit.
    Argmax,
    /// Drawn logit.
    Sample,
    /// The state's next step.
    Advance,
    /// Product, a wave an output feature.
    MatVec,
    /// Product in tiles.
    TileGemm,
    /// A weight's blocks to tiles of 16 features.
    Relayout,
    /// Product of one row over relaid weights, with what surrounds it.
    Stream(Stream),
    /// Activation rows to the form several of them are multiplied in, alone or behind a norm.
    PackRows { norm: bool },
    /// Product of several packed rows over relaid weights, with what surrounds it.
    Rows(RowsStream),
}

/// What a streaming product of packed rows computes besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RowsStream {
    /// Nothing.
    Product,
    /// The residual added.
    ProductAdd,
    /// Gate and up, and the gated unit.
    GateUp { gelu: bool },
    /// q, k and v; the value weight's format.
    Qkv { value: Format },
}

/// What a streaming product of one row computes besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stream {
    /// Nothing.
    Product,
    /// The residual added.
    ProductAdd,
    /// The norm of its input.
    NormProduct,
    /// The norm, gate and up, and the gated unit.
    NormGateUp { gelu: bool },
    /// The norm, q, k and v, rotation of pairs and append; the value weight's format.
    NormQkv { value: Format },
}

/// One row: what, over which format, when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// The weight's format, for what reads one in blocks.
    pub(crate) format: Option<Format>,
    pub(crate) regime: Regime,
}

/// The weight formats kernels read from the file's own blocks.
pub(crate) const FORMATS: [Format; 7] =
    [Format::F32, Format::F16, Format::BF16, Format::Q8_0, Format::Q4_1, Format::Q4_K, Format::Q6_K];

const STEP_REGIMES: [Regime; 3] = [Regime::DECODE_ROW, Regime::DECODE_COLS, Regime::PREFILL_BATCH];

pub(crate) fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let mut entries = Vec::new();
        let plain = [
            Kind::Add,
            Kind::Norm,
            Kind::Glu { gelu: false },
            Kind::Glu { gelu: true },
            Kind::Copy,
            Kind::RopeAppend { pairs: false },
            Kind::RopeAppend { pairs: true },
            Kind::Attention,
        ];
        for regime in STEP_REGIMES {
            let product = if regime == Regime::PREFILL_BATCH { Kind::TileGemm } else { Kind::MatVec };
            entries.extend(plain.map(|kind| Entry { kind, format: None, regime }));
            for format in FORMATS {
                entries.extend([Kind::Embed, product].map(|kind| Entry {
                    kind,
                    format: Some(format),
                    regime,
                }));
            }
        }
        entries.extend(streams());
        let tail = [Kind::Argmax, Kind::Sample, Kind::Advance];
        entries.extend(tail.map(|kind| Entry { kind, format: None, regime: Regime::FUSED_TAIL }));
        entries
    })
}

/// Rows over relaid weights: what makes them, and what a decode step of one sequence runs.
fn streams() -> Vec<Entry> {
    let mut entries = Vec::new();
    for format in layouts::TILED {
        let mut add = |kind, regime| entries.push(Entry { kind, format: Some(format), regime });
        add(Kind::Relayout, Regime::BIND);
        let values = layouts::TILED.into_iter().filter(|value| format == Format::Q4_K || *value == format);
        let kinds = [
            Stream::Product,
            Stream::ProductAdd,
            Stream::NormProduct,
            Stream::NormGateUp { gelu: false },
            Stream::NormGateUp { gelu: true },
        ];
        for stream in kinds.into_iter().chain(values.clone().map(|value| Stream::NormQkv { value })) {
            add(Kind::Stream(stream), Regime::DECODE_ROW);
        }
        let kinds = [
            RowsStream::Product,
            RowsStream::ProductAdd,
            RowsStream::GateUp { gelu: false },
            RowsStream::GateUp { gelu: true },
        ];
        for stream in kinds.into_iter().chain(values.map(|value| RowsStream::Qkv { value })) {
            add(Kind::Rows(stream), Regime::DECODE_COLS);
        }
    }
    let packs = [false, true].map(|norm| Kind::PackRows { norm });
    entries.extend(packs.map(|kind| Entry { kind, format: None, regime: Regime::DECODE_COLS }));
    entries
}

/// The entry behind a row number.
pub(crate) fn entry(row: usize) -> Option<Entry> {
    entries().get(row).copied()
}

/// The rows the host reads.
pub(crate) fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| entries().iter().map(|entry| wiring::row(*entry)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let names: HashSet<&str> = rows().iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows().len());
    }

    #[test]
    fn every_row_has_code_for_every_target() {
        for (index, row) in rows().iter().enumerate() {
            let found = manifest(index, "sm_90a").unwrap();
            assert!(found.registers > 0 && found.max_threads > 0, "{}", row.name);
            assert!(manifest(index, "sm_10").is_err());
        }
    }
}
