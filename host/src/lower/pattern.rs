//! Binds the arguments of a row that serves a run of ops: which operand each of them is.

use cajeta_abi::{LayoutId, Row};

use super::sequence::{SeqOp, SeqOperand};

/// What one launch argument of a matched row is.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Bound {
    /// One operand.
    One(SeqOperand),
    /// Several tensors packed in one layout, in step order.
    Packed(Vec<SeqOperand>),
}

/// The arguments of a row whose pattern fits these ops (see [`crate::route`]), one per `Row::args`.
/// Nothing when it does not fit.
pub(super) fn bind(row: &Row, ops: &[SeqOp]) -> Option<Vec<Bound>> {
    let mut args: Vec<Option<Bound>> = vec![None; row.args.len()];
    for (step, op) in row.steps.iter().zip(ops) {
        for (wire, operand) in step.operands.iter().zip(&op.operands) {
            if let Some(index) = wire.as_arg() {
                let index = index as usize;
                bind_one(args.get_mut(index)?, *operand, row.args.get(index)?.layout)?;
            }
        }
    }
    args.into_iter().collect()
}

/// Binds an operand to an argument; one that is bound already must be the same, or pack another tensor.
fn bind_one(slot: &mut Option<Bound>, operand: SeqOperand, layout: LayoutId) -> Option<()> {
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
