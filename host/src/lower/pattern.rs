//! Matches a row's pattern on a run of ops: the same ops, wired the same way, nothing of the inside
//! used outside.

use std::collections::HashMap;

use cajeta_abi::{LayoutId, Row, Wire};
use cajeta_catalog::contract;
use cajeta_catalog::op::Op;

use super::sequence::{SeqOp, SeqOperand, SeqValue, Sequence};

/// What one launch argument of a matched row is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Bound {
    /// One operand.
    One(SeqOperand),
    /// Several tensors packed in one layout, in step order.
    Packed(Vec<SeqOperand>),
}

/// Tries a row on the ops from `start` on. The bound arguments, one per `Row::args`, when it fits.
pub(super) fn match_row(row: &Row, sequence: &Sequence, start: usize) -> Option<Vec<Bound>> {
    let ops = sequence.ops.get(start..start.checked_add(row.steps.len())?)?;
    // A fusion knows its steps' sizes from the values they share, so an op that takes a row apart (the
    // norm of each head) is no part of one.
    if ops.len() > 1 && ops.iter().any(|op| takes_rows_apart(sequence, op)) {
        return None;
    }
    let mut args: Vec<Option<Bound>> = vec![None; row.args.len()];
    let mut internal: HashMap<u32, SeqValue> = HashMap::new();
    for (step, op) in row.steps.iter().zip(ops) {
        let contract = contract::operands(op.op);
        if Op::from_id(step.op) != Some(op.op) || step.operands.len() != contract.len() {
            return None;
        }
        for ((wire, operand), contract) in step.operands.iter().zip(&op.operands).zip(contract) {
            if let Some(id) = wire.as_internal() {
                let SeqOperand::Value(value) = operand else { return None };
                let writes = contract.access != cajeta_abi::Access::READ;
                match internal.get(&id) {
                    None if writes => {
                        internal.insert(id, *value);
                    }
                    Some(known) if known == value => {}
                    _ => return None,
                }
            } else if *wire == Wire::ABSENT {
                if *operand != SeqOperand::Absent {
                    return None;
                }
            } else {
                let index = wire.as_arg()? as usize;
                bind(args.get_mut(index)?, *operand, row.args.get(index)?.layout)?;
            }
        }
    }
    let end = start + row.steps.len();
    let escapes = internal.values().any(|value| used_outside(sequence, *value, start, end));
    if escapes { None } else { args.into_iter().collect() }
}

/// Binds an operand to an argument; one that is bound already must be the same, or pack another tensor.
fn bind(slot: &mut Option<Bound>, operand: SeqOperand, layout: LayoutId) -> Option<()> {
    let own = layout.0 >= LayoutId::OWN.0;
    match (slot.as_mut(), operand) {
        (None, _) => *slot = Some(Bound::One(operand)),
        (Some(Bound::One(known)), _) if *known == operand => {}
        (Some(Bound::One(SeqOperand::Tensor(first))), SeqOperand::Tensor(_)) if own => {
            *slot = Some(Bound::Packed(vec![SeqOperand::Tensor(*first), operand]));
        }
        (Some(Bound::Packed(tensors)), SeqOperand::Tensor(_)) if own => tensors.push(operand),
        _ => return None,
    }
    Some(())
}

/// Whether a norm has more rows than the value it reads.
fn takes_rows_apart(sequence: &Sequence, op: &SeqOp) -> bool {
    let read = match op.operands.first() {
        Some(SeqOperand::Value(value)) => sequence.values.get(value.0),
        _ => None,
    };
    op.op == Op::Norm && read.is_some_and(|value| value.rows != op.problem.m)
}

fn used_outside(sequence: &Sequence, value: SeqValue, start: usize, end: usize) -> bool {
    let outside = sequence.ops[..start].iter().chain(&sequence.ops[end..]);
    let mut operands = outside.flat_map(|op| &op.operands);
    operands.any(|operand| *operand == SeqOperand::Value(value))
}
