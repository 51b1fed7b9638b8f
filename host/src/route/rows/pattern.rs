//! Whether a row's pattern is the run of ops asked about: the same ops, wired the same way, nothing of
//! the inside used outside. Holds one statement of it, and allocates nothing.

use cajeta_abi::{Access, LayoutId, Row, Wire};
use cajeta_catalog::contract;
use cajeta_catalog::op::Op;

use super::query::{QueryOperand, QueryStep, Tensors};

/// The wires of a row with the operands they meet, in step order.
pub(super) fn met<'a>(
    row: &'a Row,
    steps: &'a [QueryStep],
) -> impl Iterator<Item = (Wire, &'a QueryOperand, &'static contract::Operand)> {
    row.steps.iter().zip(steps).flat_map(|(step, asked)| {
        let operands = asked.operands.iter().zip(contract::operands(asked.op));
        step.operands.iter().zip(operands).map(|(wire, (operand, contract))| (*wire, operand, contract))
    })
}

/// Whether the row's steps are the first of `steps`.
pub(super) fn fits(row: &Row, steps: &[QueryStep]) -> bool {
    let Some(steps) = steps.get(..row.steps.len()) else { return false };
    if steps.len() > 1 && steps.iter().any(|step| step.apart) {
        return false;
    }
    let same_ops = row.steps.iter().zip(steps).all(|(step, asked)| {
        let operands = contract::operands(asked.op).len();
        Op::from_id(step.op) == Some(asked.op)
            && step.operands.len() == operands
            && asked.operands.len() == operands
    });
    same_ops && met(row, steps).enumerate().all(|(at, wire)| wire_fits(row, steps, at, wire))
}

fn wire_fits(
    row: &Row,
    steps: &[QueryStep],
    at: usize,
    (wire, operand, contract): (Wire, &QueryOperand, &contract::Operand),
) -> bool {
    if wire == Wire::ABSENT {
        return *operand == QueryOperand::Absent;
    }
    let earlier = met(row, steps).take(at).find(|(known, ..)| *known == wire).map(|(_, operand, _)| operand);
    if wire.as_internal().is_some() {
        let QueryOperand::Value { uses, .. } = operand else { return false };
        return match earlier {
            Some(known) => known.is(operand),
            // Written first, and named nowhere but in here.
            None => {
                let inside = met(row, steps).filter(|(_, other, _)| other.is(operand)).count();
                contract.access != Access::READ && inside == *uses
            }
        };
    }
    let layout = wire.as_arg().and_then(|arg| row.args.get(arg as usize)).map(|spec| spec.layout);
    let own = layout.is_some_and(|layout| layout >= LayoutId::OWN);
    earlier.is_none_or(|known| {
        let both_weights =
            matches!((known, operand), (QueryOperand::Weight { .. }, QueryOperand::Weight { .. }));
        known.is(operand) || (own && both_weights)
    })
}

/// The tensors an argument reads: one, or those packed in its layout, and how many there are.
pub(super) fn tensors(row: &Row, steps: &[QueryStep], arg: usize) -> (Tensors, usize) {
    let (mut tensors, mut count) = (Tensors::NONE, 0usize);
    for (wire, operand, _) in met(row, steps) {
        let QueryOperand::Weight { tensor, .. } = operand else { continue };
        if wire.as_arg().is_some_and(|index| index as usize == arg) {
            // The same weight read by several steps is one; once packed, each source counts.
            if count == 1 && tensors.first() == Some(tensor) {
                continue;
            }
            tensors.push(*tensor);
            count += 1;
        }
    }
    (tensors, count)
}
