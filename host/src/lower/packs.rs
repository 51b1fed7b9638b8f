//! Inserts the packs that chosen rows want: one per (value, layout), right after the value is written.

use std::collections::BTreeMap;

use cajeta_abi::{Access, LayoutId, Problem};
use cajeta_catalog::op::Op;

use super::cover::Choice;
use super::pattern::Bound;
use super::sequence::{SeqOp, SeqOperand, SeqValue, Sequence, ValueInfo};
use crate::route::Registry;

/// The sequence with packs in it; the ops that read a packed value name it instead of the plain one.
pub(super) fn insert_packs(registry: &dyn Registry, sequence: &Sequence, choices: &[Choice]) -> Sequence {
    let mut packed: BTreeMap<(SeqValue, LayoutId), SeqValue> = BTreeMap::new();
    let mut out = sequence.clone();
    for choice in choices {
        let row = &registry.rows()[choice.row];
        for (bound, spec) in choice.args.iter().zip(row.args.iter()) {
            let Bound::One(SeqOperand::Value(value)) = bound else { continue };
            if spec.access != Access::READ || spec.layout == sequence.values[value.0].layout {
                continue;
            }
            let target = *packed.entry((*value, spec.layout)).or_insert_with(|| {
                let plain = &sequence.values[value.0];
                let name = format!("{}.packed", plain.name);
                out.values.push(ValueInfo { name, layout: spec.layout, ..plain.clone() });
                SeqValue(out.values.len() - 1)
            });
            for op in &mut out.ops[choice.start..choice.start + choice.len] {
                rename_inputs(op, *value, target);
            }
        }
    }
    for ((plain, _), target) in packed {
        let info = &out.values[plain.0];
        let pack = SeqOp {
            op: Op::Pack,
            attrs: 0,
            layer: None,
            problem: Problem { m: info.rows, k: info.width, ..Problem::default() },
            scalars: Vec::new(),
            operands: vec![SeqOperand::Value(plain), SeqOperand::Value(target)],
        };
        let at = written_at(&out, plain).map_or(0, |op| op + 1);
        out.ops.insert(at, pack);
    }
    out
}

fn rename_inputs(op: &mut SeqOp, from: SeqValue, to: SeqValue) {
    let contract = cajeta_catalog::contract::operands(op.op);
    for (operand, contract) in op.operands.iter_mut().zip(contract) {
        if *operand == SeqOperand::Value(from) && contract.access == Access::READ {
            *operand = SeqOperand::Value(to);
        }
    }
}

/// The last op that writes a value.
fn written_at(sequence: &Sequence, value: SeqValue) -> Option<usize> {
    sequence.ops.iter().rposition(|op| {
        let contract = cajeta_catalog::contract::operands(op.op);
        let mut operands = op.operands.iter().zip(contract);
        operands.any(|(operand, contract)| {
            *operand == SeqOperand::Value(value) && contract.access != Access::READ
        })
    })
}
