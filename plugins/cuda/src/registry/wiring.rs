//! From an entry to its row: arguments, steps, gates.
//!
//! Rows are made once per process and live as long as it does, so what they point to is leaked.

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_plugin_api::abi::{
    ArgSpec, Arith, DtypeId, FormatId, LayoutId, Regime, Row, ShapeGate, Step, Subject, Test, Wire,
};
use cajeta_plugin_api::catalog::contract::{self, Operand, Role};
use cajeta_plugin_api::catalog::op::{Op, attr};
use cajeta_plugin_api::catalog::quant::Format;

use super::{Entry, Kind, name, rows_streams, streams};
use crate::launch::{GROUP_MAX, HEAD_DIM_MAX};

/// Weights, activations and planes are read in 16-byte words.
const WIDE: u32 = 16;

pub(super) fn keep<T>(values: Vec<T>) -> RSlice<'static, T> {
    RSlice::from_slice(Vec::leak(values))
}

pub(super) fn text(value: String) -> RStr<'static> {
    RStr::from_str(String::leak(value))
}

/// An argument as the catalog describes the operand it serves.
pub(super) fn arg(operand: &Operand, format: Option<Format>) -> ArgSpec {
    let blocks = operand.dtype == DtypeId::BYTES && operand.role == Role::Weight;
    let layout = match operand.role {
        Role::Plane => LayoutId::KV_F16,
        Role::Weight if blocks => LayoutId::GGUF,
        _ => LayoutId::PLAIN,
    };
    let format = match (operand.role, format) {
        (Role::Weight, Some(format)) if blocks => FormatId(format.id()),
        (Role::Weight, _) => FormatId(Format::F32.id()),
        _ => FormatId::NONE,
    };
    let align = if operand.role == Role::State { 4 } else { WIDE };
    ArgSpec { layout, dtype: operand.dtype, format, align, padding: 0, access: operand.access, alias: -1 }
}

/// The op of a kind, and the attributes it can compute.
fn op_of(kind: Kind) -> (Op, u64) {
    match kind {
        Kind::Embed => (Op::Embed, attr::SCALE),
        Kind::Norm => (Op::Norm, attr::NORM_OFFSET),
        Kind::Add => (Op::Add, 0),
        Kind::Glu { gelu } => (Op::Glu, if gelu { attr::GLU_GELU } else { 0 }),
        Kind::Copy => (Op::Copy, attr::INDEXED),
        Kind::RopeAppend { pairs } => {
            let form = if pairs { attr::ROPE_PAIRS } else { 0 };
            (Op::RopeAppend, attr::ROPE_FACTORS | attr::ROPE_YARN | form)
        }
        Kind::Attention => (Op::Attention, attr::SOFTCAP | attr::WINDOW | attr::SINKS),
        Kind::Argmax => (Op::Argmax, 0),
        Kind::Sample => (Op::Sample, 0),
        Kind::Advance => (Op::Advance, 0),
        Kind::MatVec | Kind::TileGemm | Kind::Stream(_) | Kind::Rows(_) => {
            (Op::Matmul, attr::BIAS | attr::SOFTCAP)
        }
        Kind::Relayout => (Op::Relayout, 0),
        Kind::PackRows { .. } => (Op::Pack, 0),
    }
}

pub(super) fn gate(name: String, subject: Subject, test: Test, value: u64) -> ShapeGate {
    ShapeGate { name: text(name), subject, test, values: keep(vec![value]) }
}

fn gates(entry: Entry) -> Vec<ShapeGate> {
    let mut gates = Vec::new();
    match (entry.kind, entry.regime) {
        (Kind::MatVec, Regime::DECODE_ROW) => {
            gates.push(gate("M <= 1".to_owned(), Subject::M, Test::AT_MOST, 1))
        }
        (Kind::MatVec, _) => gates.push(gate("M <= 64".to_owned(), Subject::M, Test::AT_MOST, 64)),
        _ => {}
    }
    if let Some(len) = entry.format.map(|format| format.block_len() as u64).filter(|len| *len > 1) {
        gates.push(gate(format!("K % {len}"), Subject::K, Test::MULTIPLE_OF, len));
    }
    if matches!(entry.kind, Kind::Attention | Kind::RopeAppend { .. }) {
        let most = u64::from(HEAD_DIM_MAX);
        gates.push(gate("head size % 16".to_owned(), Subject::HEAD_DIM, Test::MULTIPLE_OF, 16));
        gates.push(gate(format!("head size <= {most}"), Subject::HEAD_DIM, Test::AT_MOST, most));
    }
    if entry.kind == Kind::Attention {
        let most = u64::from(GROUP_MAX);
        gates.push(gate(format!("group <= {most}"), Subject::GROUP, Test::AT_MOST, most));
    }
    gates
}

/// The row of an entry.
pub(super) fn row(entry: Entry) -> Row {
    if let Some(row) = streams::row(entry).or_else(|| rows_streams::row(entry)) {
        return row;
    }
    let (op, attrs) = op_of(entry.kind);
    let operands = contract::operands(op);
    let mut args: Vec<ArgSpec> = operands.iter().map(|operand| arg(operand, entry.format)).collect();
    // Element for element, or a row read whole before it is written.
    if matches!(entry.kind, Kind::Norm | Kind::Add | Kind::Glu { .. })
        && let Some(out) = args.last_mut()
    {
        out.alias = 0;
    }
    let wires: Vec<Wire> = (0..operands.len() as u32).map(Wire::arg).collect();
    let arith = match entry.kind {
        Kind::Embed | Kind::Copy | Kind::Argmax | Kind::Advance => Arith::NONE,
        _ => Arith::F32,
    };
    let family = match entry.kind {
        Kind::MatVec => "waveMatVec",
        Kind::TileGemm => "tileGemm",
        Kind::Attention => "attnFlash",
        _ => "",
    };
    Row {
        name: text(name::of(entry)),
        family: RStr::from_str(family),
        regime: entry.regime,
        arith,
        priority: 0,
        steps: keep(vec![Step { op: op.id(), attrs, operands: keep(wires) }]),
        problem_step: 0,
        args: keep(args),
        needs: RSlice::EMPTY,
        shape_gates: keep(gates(entry)),
        ready_gates: RSlice::EMPTY,
    }
}
