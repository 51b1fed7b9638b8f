//! Rows over relaid weights: the relayout itself, and the fused products of a decode step.

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_plugin_api::abi::{
    Access, ArgSpec, Arith, Capability, LayoutId, Need, ReadyGate, ReadyKind, Row, ShapeGate, Step, Subject,
    Test, Wire,
};
use cajeta_plugin_api::catalog::contract;
use cajeta_plugin_api::catalog::op::{Op, attr};
use cajeta_plugin_api::catalog::quant::Format;

use super::wiring::{arg, gate, keep, text};
use super::{Entry, Kind, Stream, name, tile_of};
use crate::launch::{HEAD_DIM_MAX, STREAM_WIDTH_MAX};

/// Arguments and steps under construction.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) args: Vec<ArgSpec>,
    pub(super) steps: Vec<Step>,
}

impl Draft {
    pub(super) fn add(&mut self, spec: ArgSpec) -> Wire {
        self.args.push(spec);
        Wire::arg(self.args.len() as u32 - 1)
    }

    /// An operand of an op as the catalog describes it.
    pub(super) fn operand(&mut self, op: Op, index: usize) -> Wire {
        self.add(arg(&contract::operands(op)[index], None))
    }

    /// A relaid weight.
    pub(super) fn tile(&mut self, format: Format) -> Wire {
        let spec = arg(&contract::operands(Op::Matmul)[1], Some(format));
        let layout = tile_of(format).map_or(LayoutId::GGUF, |tile| tile.layout);
        self.add(ArgSpec { layout, align: 16, ..spec })
    }

    pub(super) fn step(&mut self, op: Op, attrs: u64, wires: Vec<Wire>) {
        self.steps.push(Step { op: op.id(), attrs, operands: keep(wires) });
    }

    /// The norm of the first argument, as internal value 0.
    fn norm(&mut self) -> Wire {
        let (x, weight) = (self.operand(Op::Norm, 0), self.operand(Op::Norm, 1));
        self.step(Op::Norm, attr::NORM_OFFSET, vec![x, weight, Wire::internal(0)]);
        Wire::internal(0)
    }

    pub(super) fn product(&mut self, x: Wire, attrs: u64, weight: Wire, bias: Wire, out: Wire) {
        self.step(Op::Matmul, attrs, vec![x, weight, bias, out]);
    }
}

/// The row of an entry, if it is one of these.
pub(super) fn row(entry: Entry) -> Option<Row> {
    let format = entry.format?;
    let mut draft = Draft::default();
    let bind = entry.kind == Kind::Relayout;
    match entry.kind {
        Kind::Relayout => relayout(&mut draft, format),
        Kind::Stream(stream) => wire(&mut draft, stream, format),
        _ => return None,
    }
    let norm_first = draft.steps.first().is_some_and(|step| step.op == Op::Norm.id());
    let resident = ReadyGate { name: RStr::from_str("weight relaid"), kind: ReadyKind::LAYOUT_RESIDENT };
    Some(Row {
        name: text(name::of(entry)),
        family: RStr::from_str(if bind { "" } else { "stream" }),
        regime: entry.regime,
        arith: if bind { Arith::NONE } else { Arith::F16 },
        // The more a row fuses, the earlier it is asked.
        priority: if bind { 0 } else { 100 + draft.steps.len() as i32 },
        problem_step: u32::from(norm_first),
        steps: keep(draft.steps),
        args: keep(draft.args),
        needs: if bind { RSlice::EMPTY } else { matrix_units() },
        shape_gates: keep(gates(entry)),
        ready_gates: if bind { RSlice::EMPTY } else { keep(vec![resident]) },
    })
}

/// Every product over relaid weights is of bytes, on the matrix units.
pub(super) fn matrix_units() -> RSlice<'static, Need> {
    let name = RStr::from_str("int8 matrix units");
    keep(vec![Need { capability: Capability::MATRIX_INT8, name }])
}

fn relayout(draft: &mut Draft, format: Format) {
    let source = draft.add(arg(&contract::operands(Op::Relayout)[0], Some(format)));
    let out = draft.tile(format);
    draft.args[1].access = Access::WRITE;
    draft.step(Op::Relayout, 0, vec![source, Wire::ABSENT, Wire::ABSENT, out]);
}

fn wire(draft: &mut Draft, stream: Stream, format: Format) {
    const BOTH: u64 = attr::BIAS | attr::SOFTCAP;
    match stream {
        Stream::Product => {
            let (x, weight) = (draft.operand(Op::Matmul, 0), draft.tile(format));
            let (bias, out) = (draft.operand(Op::Matmul, 2), draft.operand(Op::Matmul, 3));
            draft.product(x, BOTH, weight, bias, out);
        }
        Stream::NormProduct => {
            let (x, weight) = (draft.norm(), draft.tile(format));
            let (bias, out) = (draft.operand(Op::Matmul, 2), draft.operand(Op::Matmul, 3));
            draft.product(x, BOTH, weight, bias, out);
        }
        Stream::ProductAdd => {
            let (x, weight) = (draft.operand(Op::Matmul, 0), draft.tile(format));
            let (bias, residual) = (draft.operand(Op::Matmul, 2), draft.operand(Op::Add, 0));
            let out = draft.operand(Op::Add, 2);
            draft.product(x, BOTH, weight, bias, Wire::internal(0));
            draft.step(Op::Add, 0, vec![residual, Wire::internal(0), out]);
            // Each value is read by the thread that then writes it.
            draft.args[4].alias = 3;
        }
        Stream::NormGateUp { gelu } => {
            let x = draft.norm();
            let (gate, up, out) = (draft.tile(format), draft.tile(format), draft.operand(Op::Glu, 2));
            draft.product(x, 0, gate, Wire::ABSENT, Wire::internal(1));
            draft.product(x, 0, up, Wire::ABSENT, Wire::internal(2));
            let form = if gelu { attr::GLU_GELU } else { 0 };
            draft.step(Op::Glu, form, vec![Wire::internal(1), Wire::internal(2), out]);
        }
        Stream::NormQkv { value } => {
            let x = draft.norm();
            let (wq, wk, wv) = (draft.tile(format), draft.tile(format), draft.tile(value));
            let q = draft.operand(Op::Matmul, 3);
            draft.product(x, 0, wq, Wire::ABSENT, q);
            draft.product(x, 0, wk, Wire::ABSENT, Wire::internal(1));
            draft.product(x, 0, wv, Wire::ABSENT, Wire::internal(2));
            let mut wires = vec![q, Wire::internal(1), Wire::internal(2)];
            wires.extend((3..9).map(|index| draft.operand(Op::RopeAppend, index)));
            let form = attr::ROPE_FACTORS | attr::ROPE_YARN | attr::ROPE_PAIRS;
            draft.step(Op::RopeAppend, form, wires);
        }
    }
}

fn gates(entry: Entry) -> Vec<ShapeGate> {
    let mut gates = vec![gate("K % 256".to_owned(), Subject::K, Test::MULTIPLE_OF, 256)];
    let Kind::Stream(stream) = entry.kind else { return gates };
    gates.push(gate("M <= 1".to_owned(), Subject::M, Test::AT_MOST, 1));
    gates.push(gate(format!("K <= {STREAM_WIDTH_MAX}"), Subject::K, Test::AT_MOST, STREAM_WIDTH_MAX));
    if let Stream::NormQkv { .. } = stream {
        let most = u64::from(HEAD_DIM_MAX);
        gates.push(gate("head size % 16".to_owned(), Subject::HEAD_DIM, Test::MULTIPLE_OF, 16));
        gates.push(gate(format!("head size <= {most}"), Subject::HEAD_DIM, Test::AT_MOST, most));
    }
    gates
}
