//! The kernel registry: which kernels there are, as entries for this crate and
//! as rows for the host. Both are made once, in one order.

mod name;
mod layouts;
mod wiring;
mod geometry;
mod manifest;

pub(crate) use geometry::geometry;
pub(crate) use layouts::{layout_bytes, layouts, wide_bytes};
pub(crate) use manifest::manifest;

use std::sync::OnceLock;

use cajeta_plugin_api::abi::{Regime, Row};
use cajeta_plugin_api::catalog::quant::Format;

use crate::kernel::table::FORMATS;
use crate::tier::Tier;

/// What a row computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Embed,
    Norm,
    Add,
    Glu {
        gelu: bool,
    },
    Copy,
    RopeAppend {
        pairs: bool,
    },
    Attention,
    /// Attention of a prefill without its tiles: row by row.
    AttentionRows,
    Argmax,
    Sample,
    Advance,
    Matmul,
    /// Product that asks for weights from further ahead.
    MatmulFar,
    /// Product, then the sum with a residual.
    MatmulAdd,
    /// Two products of one input and the gate between them.
    GateUp {
        gelu: bool,
    },
    /// Queries, keys and values of one input.
    Qkv {
        /// Index in [`FORMATS`] of the value projection's format.
        value: usize,
    },
    /// A weight's blocks to the tiles of f32 that a tier's prefill reads.
    Widen,
}

impl Kind {
    /// Whether it is products of weights with one input.
    pub(crate) fn is_product(self) -> bool {
        matches!(
            self,
            Kind::Matmul | Kind::MatmulFar | Kind::MatmulAdd | Kind::GateUp { .. } | Kind::Qkv { .. }
        )
    }

    /// Whether it is attention, in any form.
    pub(crate) fn is_attention(self) -> bool {
        matches!(self, Kind::Attention | Kind::AttentionRows)
    }
}

/// What published files give values where they give them another format than queries and keys. The last
/// two are what they fall back on where rows are not whole blocks of 256.
const VALUES_APART: [(Format, Format); 10] = [
    (Format::Q2_K, Format::Q3_K),
    (Format::Q2_K, Format::Q4_K),
    (Format::Q3_K, Format::Q4_K),
    (Format::Q3_K, Format::Q5_K),
    (Format::Q4_K, Format::Q6_K),
    (Format::Q5_K, Format::Q6_K),
    (Format::IQ4_NL, Format::Q5_K),
    (Format::IQ4_XS, Format::Q5_K),
    (Format::Q5_0, Format::Q8_0),
    (Format::Q5_1, Format::Q8_0),
];

/// The kinds that read weights of a format, given by its index.
fn weighed(format: usize) -> impl Iterator<Item = Kind> {
    let apart = VALUES_APART.iter().filter(move |(bulk, _)| *bulk == FORMATS[format]);
    let apart = apart.filter_map(|(_, value)| FORMATS.iter().position(|format| format == value));
    let qkv = [format].into_iter().chain(apart).map(|value| Kind::Qkv { value });
    [Kind::Matmul, Kind::MatmulAdd, Kind::GateUp { gelu: false }, Kind::GateUp { gelu: true }]
        .into_iter()
        .chain(qkv)
}

/// One row: what, over which format, when, on which tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// Index in [`FORMATS`] of the (first) weight's format.
    pub(crate) format: Option<usize>,
    pub(crate) regime: Regime,
    pub(crate) tier: Tier,
    /// Whether weights are widened: in the tier's own layout, not in blocks.
    pub(crate) wide: bool,
}

impl Entry {
    fn new(kind: Kind, format: Option<usize>, regime: Regime, tier: Tier) -> Entry {
        Entry { kind, format, regime, tier, wide: false }
    }
}

const STEP_REGIMES: [Regime; 3] = [Regime::DECODE_ROW, Regime::DECODE_COLS, Regime::PREFILL_BATCH];

fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let mut entries = Vec::new();
        let plain = [
            Kind::Norm,
            Kind::Add,
            Kind::Glu { gelu: false },
            Kind::Glu { gelu: true },
            Kind::RopeAppend { pairs: false },
            Kind::RopeAppend { pairs: true },
            Kind::Attention,
        ];
        for regime in STEP_REGIMES {
            for &tier in Tier::ALL.iter().rev() {
                for format in 0..FORMATS.len() {
                    entries.extend(weighed(format).map(|kind| Entry::new(kind, Some(format), regime, tier)));
                    // How far ahead pays is the machine's to say, weight shape by weight shape.
                    if regime == Regime::DECODE_ROW && tier != Tier::Portable {
                        entries.push(Entry::new(Kind::MatmulFar, Some(format), regime, tier));
                    }
                }
                entries.extend(plain.map(|kind| Entry::new(kind, None, regime, tier)));
                if regime == Regime::PREFILL_BATCH {
                    entries.push(Entry::new(Kind::AttentionRows, None, regime, tier));
                }
            }
            for format in 0..FORMATS.len() {
                entries.push(Entry::new(Kind::Embed, Some(format), regime, Tier::Portable));
            }
            entries.push(Entry::new(Kind::Copy, None, regime, Tier::Portable));
        }
        for &tier in Tier::ALL.iter().rev() {
            for kind in [Kind::Argmax, Kind::Sample] {
                entries.push(Entry::new(kind, None, Regime::FUSED_TAIL, tier));
            }
        }
        entries.push(Entry::new(Kind::Advance, None, Regime::FUSED_TAIL, Tier::Portable));
        entries.extend(widened());
        entries
    })
}

/// Rows over widened weights, and what widens them.
fn widened() -> impl Iterator<Item = Entry> {
    let each = Tier::ALL.iter().rev().flat_map(|&tier| layouts::widened().map(move |format| (tier, format)));
    each.flat_map(|(tier, format)| {
        let widen = Entry::new(Kind::Widen, Some(format), Regime::BIND, tier);
        let product =
            weighed(format).map(move |kind| Entry::new(kind, Some(format), Regime::PREFILL_BATCH, tier));
        [widen].into_iter().chain(product).map(|entry| Entry { wide: true, ..entry })
    })
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
    fn names_are_unique_and_say_the_tier() {
        let mut seen = HashSet::new();
        for (row, entry) in rows().iter().zip(entries()) {
            assert!(seen.insert(row.name.as_str()), "{} twice", row.name);
            assert!(row.name.as_str().ends_with(entry.tier.suffix()), "{}", row.name);
            assert_eq!(row.needs.is_empty(), entry.tier == Tier::Portable);
        }
    }

    #[test]
    fn attention_admits_as_many_heads_of_a_group_as_a_tile_holds() {
        use cajeta_plugin_api::abi::{Subject, Test};
        for (row, entry) in rows().iter().zip(entries()).filter(|(_, entry)| entry.kind.is_attention()) {
            let most = row.shape_gates.iter().find(|gate| gate.subject == Subject::GROUP);
            let most = most.unwrap_or_else(|| panic!("{} admits every group", row.name));
            assert_eq!(most.test, Test::AT_MOST, "{}: {:?}", row.name, entry.kind);
            assert_eq!(most.values.as_slice(), [crate::task::GROUP_MAX as u64], "{}", row.name);
            assert_eq!(most.name.as_str(), format!("group <= {}", crate::task::GROUP_MAX));
        }
    }

    #[test]
    fn every_operand_is_wired_to_an_argument_or_an_earlier_value() {
        use cajeta_plugin_api::catalog::{contract, op::Op};
        for row in rows() {
            let mut values = HashSet::new();
            for step in row.steps.iter() {
                let op = Op::from_id(step.op).unwrap();
                let operands = contract::operands(op);
                assert_eq!(step.operands.len(), operands.len(), "{}", row.name);
                for (wire, operand) in step.operands.iter().zip(operands) {
                    if let Some(arg) = wire.as_arg() {
                        let spec = row.args.get(arg as usize).unwrap();
                        assert_eq!(spec.access, operand.access, "{}: {}", row.name, operand.name);
                    } else if let Some(value) = wire.as_internal() {
                        let written = operand.access != cajeta_plugin_api::abi::Access::READ;
                        assert_eq!(values.insert(value), written, "{}: {}", row.name, operand.name);
                    } else if op != Op::Relayout {
                        // A relayout of one source has no second.
                        assert_ne!(operand.attr, 0, "{}: {} may not be absent", row.name, operand.name);
                    }
                }
            }
        }
    }
}
