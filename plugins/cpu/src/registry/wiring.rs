//! From an entry to its row: arguments, steps, gates.
//!
//! Rows are made once per process and live as long as it does, so what they
//! point to is leaked.

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_plugin_api::abi::{
    Access, ArgSpec, Arith, DtypeId, FormatId, LayoutId, ReadyGate, ReadyKind, Regime, Row, ShapeGate, Step,
    Subject, Test, Wire,
};
use cajeta_plugin_api::catalog::contract::{self, Operand, Role};
use cajeta_plugin_api::catalog::op::{Op, attr};
use cajeta_plugin_api::catalog::quant::Format;

use super::layouts::wide;
use super::{Entry, Kind, name};
use crate::kernel::table::FORMATS;
use crate::task::{DOT_ROWS, GROUP_MAX, HEAD_DIM_MAX};

fn keep<T>(values: Vec<T>) -> RSlice<'static, T> {
    RSlice::from_slice(Vec::leak(values))
}

fn text(value: String) -> RStr<'static> {
    RStr::from_str(String::leak(value))
}

/// An argument as the catalog describes the operand it serves.
fn arg(operand: &Operand, format: Option<Format>) -> ArgSpec {
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
    // Blocks of a file begin anywhere; the rest are words and halves.
    let align = match operand.dtype {
        DtypeId::BYTES => 1,
        DtypeId::F16 => 2,
        _ => 4,
    };
    ArgSpec { layout, dtype: operand.dtype, format, align, padding: 0, access: operand.access, alias: -1 }
}

fn step(op: Op, attrs: u64, operands: Vec<Wire>) -> Step {
    Step { op: op.id(), attrs, operands: keep(operands) }
}

/// A row of one step takes the op's operands as they are.
fn plain(op: Op, attrs: u64, format: Option<Format>) -> (Vec<ArgSpec>, Vec<Step>) {
    let operands = contract::operands(op);
    let args = operands.iter().map(|operand| arg(operand, format)).collect();
    let wires = (0..operands.len() as u32).map(Wire::arg).collect();
    (args, vec![step(op, attrs, wires)])
}

fn in_place(args: &mut [ArgSpec], out: usize, over: usize) {
    if let Some(spec) = args.get_mut(out) {
        spec.alias = over as i32;
    }
}

/// The arguments and steps of a kind.
fn wiring(kind: Kind, format: Option<Format>) -> (Vec<ArgSpec>, Vec<Step>) {
    let matmul = contract::operands(Op::Matmul);
    let [x, weight, bias, out] = [0, 1, 2, 3].map(|at| arg(&matmul[at], format));
    match kind {
        Kind::Embed => plain(Op::Embed, attr::SCALE, format),
        Kind::Norm => {
            let (mut args, steps) = plain(Op::Norm, attr::NORM_OFFSET, None);
            in_place(&mut args, 2, 0);
            (args, steps)
        }
        Kind::Add => {
            let (mut args, steps) = plain(Op::Add, 0, None);
            in_place(&mut args, 2, 0);
            (args, steps)
        }
        Kind::Glu { gelu } => {
            let (mut args, steps) = plain(Op::Glu, if gelu { attr::GLU_GELU } else { 0 }, None);
            in_place(&mut args, 2, 0);
            (args, steps)
        }
        Kind::Copy => plain(Op::Copy, attr::INDEXED, None),
        Kind::RopeAppend { pairs } => {
            let form = if pairs { attr::ROPE_PAIRS } else { 0 };
            plain(Op::RopeAppend, attr::ROPE_FACTORS | attr::ROPE_YARN | form, None)
        }
        Kind::Attention | Kind::AttentionRows => {
            plain(Op::Attention, attr::SOFTCAP | attr::WINDOW | attr::SINKS, None)
        }
        Kind::Argmax => plain(Op::Argmax, 0, None),
        Kind::Sample => plain(Op::Sample, 0, None),
        Kind::Advance => plain(Op::Advance, 0, None),
        Kind::Widen => {
            let relayout = contract::operands(Op::Relayout);
            let args = vec![arg(&relayout[0], format), arg(&relayout[3], format)];
            let wires = vec![Wire::arg(0), Wire::ABSENT, Wire::ABSENT, Wire::arg(1)];
            (args, vec![step(Op::Relayout, 0, wires)])
        }
        Kind::Matmul | Kind::MatmulFar => plain(Op::Matmul, attr::BIAS | attr::SOFTCAP, format),
        Kind::MatmulAdd => {
            let residual = arg(&contract::operands(Op::Add)[0], None);
            let mut args = vec![x, weight, bias, residual, out];
            in_place(&mut args, 4, 3);
            let product = vec![Wire::arg(0), Wire::arg(1), Wire::arg(2), Wire::internal(0)];
            let sum = vec![Wire::arg(3), Wire::internal(0), Wire::arg(4)];
            (args, vec![step(Op::Matmul, attr::BIAS, product), step(Op::Add, 0, sum)])
        }
        Kind::GateUp { gelu } => {
            let args = vec![x, weight, weight, out];
            let product =
                |weight, value| vec![Wire::arg(0), Wire::arg(weight), Wire::ABSENT, Wire::internal(value)];
            let gate = vec![Wire::internal(0), Wire::internal(1), Wire::arg(3)];
            let form = if gelu { attr::GLU_GELU } else { 0 };
            let steps = vec![
                step(Op::Matmul, 0, product(1, 0)),
                step(Op::Matmul, 0, product(2, 1)),
                step(Op::Glu, form, gate),
            ];
            (args, steps)
        }
        Kind::Qkv { value } => {
            let values = arg(&matmul[1], Some(FORMATS[value]));
            let args = vec![x, weight, weight, values, bias, bias, bias, out, out, out];
            let product = |at: u32| [0, 1 + at, 4 + at, 7 + at].map(Wire::arg).to_vec();
            (args, [0, 1, 2].map(|at| step(Op::Matmul, attr::BIAS, product(at))).to_vec())
        }
    }
}

fn gate(name: String, subject: Subject, test: Test, value: u64) -> ShapeGate {
    ShapeGate { name: text(name), subject, test, values: keep(vec![value]) }
}

fn gates(entry: Entry) -> Vec<ShapeGate> {
    let mut gates = Vec::new();
    let product = entry.kind.is_product();
    if product && entry.regime == Regime::DECODE_ROW {
        gates.push(gate("M <= 1".to_owned(), Subject::M, Test::AT_MOST, 1));
    }
    if product && entry.regime == Regime::DECODE_COLS {
        gates.push(gate("M <= 64".to_owned(), Subject::M, Test::AT_MOST, 64));
    }
    if product && entry.wide {
        // Fewer rows are multiplied weight by weight, and blocks are fewer bytes.
        let least = DOT_ROWS as u64 + 1;
        gates.push(gate(format!("M >= {least}"), Subject::M, Test::AT_LEAST, least));
    }
    if let Some(index) = entry.format {
        let values = if let Kind::Qkv { value } = entry.kind { value } else { index };
        // One of the two is a multiple of the other.
        let len = FORMATS[index].block_len().max(FORMATS[values].block_len()) as u64;
        if len > 1 {
            gates.push(gate(format!("K % {len}"), Subject::K, Test::MULTIPLE_OF, len));
        }
    }
    if entry.kind.is_attention() || matches!(entry.kind, Kind::RopeAppend { .. }) {
        gates.push(gate("head size % 16".to_owned(), Subject::HEAD_DIM, Test::MULTIPLE_OF, 16));
        let most = HEAD_DIM_MAX as u64;
        gates.push(gate(format!("head size <= {most}"), Subject::HEAD_DIM, Test::AT_MOST, most));
    }
    if entry.kind.is_attention() {
        let most = GROUP_MAX as u64;
        gates.push(gate(format!("group <= {most}"), Subject::GROUP, Test::AT_MOST, most));
    }
    gates
}

/// Puts the weights of a row, or what it makes of one, into its tier's layout.
fn widen(entry: Entry, args: &mut [ArgSpec]) {
    let made = |spec: &ArgSpec| entry.kind != Kind::Widen || spec.access != Access::READ;
    let blocks = args.iter_mut().filter(|spec| spec.layout == LayoutId::GGUF && made(spec));
    for spec in blocks {
        *spec = ArgSpec { layout: wide(entry.tier), align: 4, ..*spec };
    }
}

/// Higher is tried first: wider tiers, then products over blocks, then fusions over their parts and tiles
/// over rows.
fn priority(entry: Entry) -> i32 {
    let fusion = match entry.kind {
        Kind::MatmulAdd | Kind::GateUp { .. } | Kind::Qkv { .. } => 1,
        // A guess, which measurement may turn round.
        Kind::AttentionRows | Kind::MatmulFar => -1,
        _ => 0,
    };
    (entry.tier as i32) * 10 + fusion - if entry.wide { 5 } else { 0 }
}

/// The row of an entry.
pub(super) fn row(entry: Entry) -> Row {
    let (mut args, steps) = wiring(entry.kind, entry.format.map(|index| FORMATS[index]));
    if entry.wide {
        widen(entry, &mut args);
    }
    let resident = ReadyGate { name: RStr::from_str("widened weights"), kind: ReadyKind::LAYOUT_RESIDENT };
    let reads_wide = entry.wide && entry.kind.is_product();
    let decode = entry.regime == Regime::DECODE_ROW || entry.regime == Regime::DECODE_COLS;
    let arith = match entry.kind {
        Kind::Embed | Kind::Copy | Kind::Advance | Kind::Widen => Arith::NONE,
        _ => Arith::F32,
    };
    Row {
        name: text(name::of(entry)),
        family: RStr::from_str(entry.kind.family(decode, entry.wide)),
        regime: entry.regime,
        arith,
        priority: priority(entry),
        steps: keep(steps),
        problem_step: 0,
        args: keep(args),
        needs: keep(entry.tier.need().into_iter().collect()),
        shape_gates: keep(gates(entry)),
        ready_gates: keep(if reads_wide { vec![resident] } else { Vec::new() }),
    }
}

/// Access of each argument of a row, for its manifest.
pub(super) fn access(row: &Row) -> Vec<Access> {
    row.args.iter().map(|arg| arg.access).collect()
}
