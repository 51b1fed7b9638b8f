//! The pattern of a fusion as a question: its own ops, wired as it says, in the formats it reads.

use cajeta_abi::{FormatId, LayoutId, Row, Wire};
use cajeta_catalog::contract::{self, Role};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_model_arch::plan::TensorId;

use super::shapes::{problem, scalars};
use super::{Question, Shape};
use crate::route::rows::{QueryOperand, QueryStep, format_operand};

/// Values that stay inside are numbered from here.
const INSIDE: usize = 1 << 20;

/// The questions a fusion answers, at every kind of shape; none where an op is unknown.
pub(super) fn of(row: &Row) -> Vec<Question> {
    let ops: Option<Vec<Op>> = row.steps.iter().map(|step| Op::from_id(step.op)).collect();
    let Some(ops) = ops else { return Vec::new() };
    let question = |shape| Question {
        regime: row.regime,
        shape,
        steps: (0..ops.len()).map(|at| step(row, &ops, at, shape)).collect(),
    };
    Shape::ALL.map(question).to_vec()
}

fn step(row: &Row, ops: &[Op], at: usize, shape: Shape) -> QueryStep {
    let op = ops[at];
    let wires = row.steps[at].operands;
    let operand = |(position, wire): (usize, &Wire)| {
        let role = contract::operands(op).get(position).map(|operand| operand.role);
        if let Some(inside) = wire.as_internal() {
            let all = row.steps.iter().flat_map(|step| step.operands.iter());
            let uses = all.filter(|other| *other == wire).count();
            return value(INSIDE + inside as usize, LayoutId::PLAIN, uses);
        }
        let Some((arg, spec)) = wire.as_arg().and_then(|arg| Some((arg, row.args.get(arg as usize)?))) else {
            return QueryOperand::Absent;
        };
        match role {
            Some(Role::Weight) => {
                // Tensors packed in one argument differ; a plain vector is f32.
                let source = if spec.layout >= LayoutId::OWN { at as u32 } else { 0 };
                let vector = spec.format == FormatId::NONE;
                let format = if vector { FormatId(Format::F32.id()) } else { spec.format };
                QueryOperand::Weight { tensor: TensorId(arg * 16 + source), format }
            }
            Some(Role::Activation) => value(arg as usize, spec.layout, 1),
            _ => QueryOperand::Fixed(u64::from(arg)),
        }
    };
    let operands: Vec<QueryOperand> = wires.iter().enumerate().map(operand).collect();
    let format = match format_operand(op).and_then(|at| operands.get(at)) {
        Some(QueryOperand::Weight { format, .. }) => *format,
        _ => FormatId::NONE,
    };
    QueryStep {
        op,
        attrs: row.steps[at].attrs,
        problem: problem(op, row.regime, format, shape),
        scalars: scalars(op, shape),
        operands,
        apart: false,
    }
}

fn value(value: usize, layout: LayoutId, uses: usize) -> QueryOperand {
    QueryOperand::Value { value, layout, packable: [].into(), uses }
}
