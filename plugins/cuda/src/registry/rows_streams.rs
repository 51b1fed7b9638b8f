//! Rows over relaid weights and packed activations: what a decode step of several sequences runs.

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_plugin_api::abi::{
    ArgSpec, Arith, DtypeId, ReadyGate, ReadyKind, Row, ShapeGate, Subject, Test, Wire,
};
use cajeta_plugin_api::catalog::contract;
use cajeta_plugin_api::catalog::op::{Op, attr};
use cajeta_plugin_api::catalog::quant::Format;

use super::streams::{Draft, matrix_units};
use super::wiring::{arg, gate, keep, text};
use super::{Entry, Kind, PACKED, ROWS_MOST, RowsStream, name};
use crate::launch::STREAM_WIDTH_MAX;

/// Packed activations, as `operand` of an op.
fn packed(draft: &mut Draft, op: Op, operand: usize) -> Wire {
    let spec = arg(&contract::operands(op)[operand], None);
    draft.add(ArgSpec { layout: PACKED, dtype: DtypeId::BYTES, ..spec })
}

/// The row of an entry, if it is one of these.
pub(super) fn row(entry: Entry) -> Option<Row> {
    let mut draft = Draft::default();
    let pack = match (entry.kind, entry.format) {
        (Kind::PackRows { norm }, _) => {
            pack(&mut draft, norm);
            true
        }
        (Kind::Rows(stream), Some(format)) => {
            wire(&mut draft, stream, format);
            false
        }
        _ => return None,
    };
    let resident = ReadyGate { name: RStr::from_str("weight relaid"), kind: ReadyKind::LAYOUT_RESIDENT };
    Some(Row {
        name: text(name::of(entry)),
        family: RStr::from_str(if pack { "" } else { "streamRows" }),
        regime: entry.regime,
        arith: Arith::F16,
        // The more a row fuses, the earlier it is asked. A pack alone does not come before other rows.
        priority: if pack { draft.steps.len() as i32 - 1 } else { 100 + draft.steps.len() as i32 },
        problem_step: 0,
        steps: keep(draft.steps),
        args: keep(draft.args),
        needs: if pack { RSlice::EMPTY } else { matrix_units() },
        shape_gates: keep(gates(entry)),
        ready_gates: if pack { RSlice::EMPTY } else { keep(vec![resident]) },
    })
}

fn pack(draft: &mut Draft, norm: bool) {
    let (op, weight) = if norm { (Op::Norm, true) } else { (Op::Pack, false) };
    let x = draft.operand(op, 0);
    if weight {
        let weight = draft.operand(Op::Norm, 1);
        draft.step(Op::Norm, attr::NORM_OFFSET, vec![x, weight, Wire::internal(0)]);
    }
    let out = packed(draft, Op::Pack, 1);
    draft.step(Op::Pack, 0, vec![if weight { Wire::internal(0) } else { x }, out]);
}

fn wire(draft: &mut Draft, stream: RowsStream, format: Format) {
    const BOTH: u64 = attr::BIAS | attr::SOFTCAP;
    let x = packed(draft, Op::Matmul, 0);
    match stream {
        RowsStream::Product => {
            let weight = draft.tile(format);
            let (bias, out) = (draft.operand(Op::Matmul, 2), draft.operand(Op::Matmul, 3));
            draft.product(x, BOTH, weight, bias, out);
        }
        RowsStream::ProductAdd => {
            let weight = draft.tile(format);
            let (bias, residual) = (draft.operand(Op::Matmul, 2), draft.operand(Op::Add, 0));
            let out = draft.operand(Op::Add, 2);
            draft.product(x, BOTH, weight, bias, Wire::internal(0));
            draft.step(Op::Add, 0, vec![residual, Wire::internal(0), out]);
            // Each value is read by the thread that then writes it.
            draft.args[4].alias = 3;
        }
        RowsStream::GateUp { gelu } => {
            let (gate, up, out) = (draft.tile(format), draft.tile(format), draft.operand(Op::Glu, 2));
            draft.product(x, 0, gate, Wire::ABSENT, Wire::internal(0));
            draft.product(x, 0, up, Wire::ABSENT, Wire::internal(1));
            let form = if gelu { attr::GLU_GELU } else { 0 };
            draft.step(Op::Glu, form, vec![Wire::internal(0), Wire::internal(1), out]);
        }
        RowsStream::Qkv { value } => {
            let weights = [format, format, value].map(|format| draft.tile(format));
            let outs = [(); 3].map(|()| draft.operand(Op::Matmul, 3));
            for (weight, out) in weights.into_iter().zip(outs) {
                draft.product(x, 0, weight, Wire::ABSENT, out);
            }
        }
    }
}

fn gates(entry: Entry) -> Vec<ShapeGate> {
    let mut gates = vec![
        gate("K % 256".to_owned(), Subject::K, Test::MULTIPLE_OF, 256),
        gate(format!("M <= {ROWS_MOST}"), Subject::M, Test::AT_MOST, ROWS_MOST),
        gate(format!("K <= {STREAM_WIDTH_MAX}"), Subject::K, Test::AT_MOST, STREAM_WIDTH_MAX),
    ];
    if let Kind::Rows(RowsStream::Qkv { .. }) = entry.kind {
        gates.push(gate("N % 16".to_owned(), Subject::N, Test::MULTIPLE_OF, 16));
        gates.push(gate("key width % 16".to_owned(), Subject::AUX, Test::MULTIPLE_OF, 16));
    }
    gates
}
