//! Rows with layouts of this plugin, and fusions: what a host must lower.

use cajeta_plugin_api::abi::{Access, ArgSpec, Arith, DtypeId, FormatId, LayoutId, Regime, Wire};
use cajeta_plugin_api::catalog::contract::operands;
use cajeta_plugin_api::catalog::op::{Op, attr};
use cajeta_plugin_api::catalog::quant::Format;

use super::REGIMES;
use super::draft::{Draft, plain, rows, spelled};
use crate::layouts::{COLUMNS, EXPANDED, decodable};

pub(super) fn drafts(priority: i32) -> Vec<Draft> {
    let mut drafts: Vec<Draft> = decodable().map(|format| relayout(format, priority)).collect();
    for (regime, word) in REGIMES {
        for format in decodable() {
            let name = |stem: &str| format!("ref{stem}{}{word}", spelled(format));
            // A host should meet both layouts in one model: a mixed recipe's larger
            // format is expanded first, the others are read in columns first.
            let first = priority + i32::from(format == Format::Q6_K);
            drafts.push(expanded(name("MatMulExpanded"), regime, first, format));
            drafts.push(columns(name("MatMulColumns"), regime, priority, format));
            drafts.push(add(name("MatMulAdd"), regime, priority, format));
            drafts.push(gated(name("GateUpSilu"), regime, priority, format, 0));
            drafts.push(gated(name("GateUpGelu"), regime, priority, format, attr::GLU_GELU));
            drafts.push(projections(name("NormQkvPairs"), regime, priority, format));
        }
        drafts.push(pack(format!("refPackColumns{word}"), regime, priority));
        drafts.push(norm_pack(format!("refNormPackColumns{word}"), regime, priority));
    }
    drafts
}

fn id(format: Format) -> FormatId {
    FormatId(format.id())
}

/// A weight in `ref.f32`, made from a tensor of `format`.
fn expanded_weight(format: Format, access: Access) -> ArgSpec {
    ArgSpec { layout: EXPANDED, dtype: DtypeId::BYTES, format: id(format), ..rows(access) }
}

/// Activations in `ref.columns`.
fn column_rows(access: Access) -> ArgSpec {
    ArgSpec { layout: COLUMNS, dtype: DtypeId::BYTES, ..rows(access) }
}

fn file_weight(format: Format) -> ArgSpec {
    ArgSpec { layout: LayoutId::GGUF, dtype: DtypeId::BYTES, format: id(format), ..rows(Access::READ) }
}

fn bias() -> ArgSpec {
    ArgSpec { format: id(Format::F32), ..rows(Access::READ) }
}

fn relayout(format: Format, priority: i32) -> Draft {
    let mut draft = Draft::new(format!("refRelayout{}Expanded", spelled(format)), Regime::BIND, priority);
    let source = draft.arg(file_weight(format));
    let out = draft.arg(expanded_weight(format, Access::WRITE));
    draft.steps.push((Op::Relayout, 0, vec![source, Wire::ABSENT, Wire::ABSENT, out]));
    Draft { arith: Arith::NONE, ..draft }.gate_blocks(Some(format))
}

/// A product whose weight was expanded at load.
fn expanded(name: String, regime: Regime, priority: i32, format: Format) -> Draft {
    let mut draft =
        Draft::new(name, regime, priority).op(Op::Matmul, attr::BIAS | attr::SOFTCAP, Some(format));
    draft.args[1] = expanded_weight(format, Access::READ);
    draft.resident()
}

/// A product whose activations were packed in columns.
fn columns(name: String, regime: Regime, priority: i32, format: Format) -> Draft {
    let mut draft =
        Draft::new(name, regime, priority).op(Op::Matmul, attr::BIAS | attr::SOFTCAP, Some(format));
    draft.args[0] = column_rows(Access::READ);
    draft
}

fn pack(name: String, regime: Regime, priority: i32) -> Draft {
    let mut draft = Draft::new(name, regime, priority).op(Op::Pack, 0, None);
    draft.args[1] = column_rows(Access::WRITE);
    Draft { arith: Arith::NONE, ..draft }
}

/// A norm that writes columns.
fn norm_pack(name: String, regime: Regime, priority: i32) -> Draft {
    let mut draft = Draft::new(name, regime, priority);
    let x = draft.arg(rows(Access::READ));
    let weight = draft.arg(plain(&operands(Op::Norm)[1], None));
    let out = draft.arg(column_rows(Access::WRITE));
    draft.steps = vec![
        (Op::Norm, attr::NORM_OFFSET, vec![x, weight, Wire::internal(0)]),
        (Op::Pack, 0, vec![Wire::internal(0), out]),
    ];
    draft
}

/// A product added to the residual, in place if the host likes.
fn add(name: String, regime: Regime, priority: i32, format: Format) -> Draft {
    let mut draft = Draft::new(name, regime, priority);
    let x = draft.arg(rows(Access::READ));
    let weight = draft.arg(file_weight(format));
    let bias = draft.arg(bias());
    let residual = draft.arg(rows(Access::READ));
    let out = draft.arg(rows(Access::WRITE));
    draft.steps = vec![
        (Op::Matmul, attr::BIAS, vec![x, weight, bias, Wire::internal(0)]),
        (Op::Add, 0, vec![residual, Wire::internal(0), out]),
    ];
    draft.in_place_of(3).gate_blocks(Some(format))
}

/// The norm, the projections of attention, rotation of pairs and append.
fn projections(name: String, regime: Regime, priority: i32, format: Format) -> Draft {
    let mut draft = Draft::new(name, regime, priority);
    let x = draft.arg(rows(Access::READ));
    let norm = draft.arg(plain(&operands(Op::Norm)[1], None));
    let weights = [(); 3].map(|()| draft.arg(file_weight(format)));
    let q = draft.arg(rows(Access::WRITE));
    let outs = [q, Wire::internal(1), Wire::internal(2)];
    draft.steps.push((Op::Norm, attr::NORM_OFFSET, vec![x, norm, Wire::internal(0)]));
    for (weight, out) in weights.into_iter().zip(outs) {
        draft.steps.push((Op::Matmul, 0, vec![Wire::internal(0), weight, Wire::ABSENT, out]));
    }
    let mut wires = outs.to_vec();
    wires.extend(operands(Op::RopeAppend)[3..].iter().map(|operand| draft.arg(plain(operand, None))));
    draft.steps.push((Op::RopeAppend, attr::ROPE_FACTORS | attr::ROPE_YARN | attr::ROPE_PAIRS, wires));
    // Its size is that of the query projection.
    Draft { problem_step: 1, ..draft }.gate_blocks(Some(format))
}

/// Gate and up projections of one input, and the gated unit on top.
fn gated(name: String, regime: Regime, priority: i32, format: Format, act: u64) -> Draft {
    let mut draft = Draft::new(name, regime, priority);
    let x = draft.arg(rows(Access::READ));
    let gate = draft.arg(file_weight(format));
    let up = draft.arg(file_weight(format));
    let out = draft.arg(rows(Access::WRITE));
    draft.steps = vec![
        (Op::Matmul, 0, vec![x, gate, Wire::ABSENT, Wire::internal(0)]),
        (Op::Matmul, 0, vec![x, up, Wire::ABSENT, Wire::internal(1)]),
        (Op::Glu, act, vec![Wire::internal(0), Wire::internal(1), out]),
    ];
    draft.gate_blocks(Some(format))
}
