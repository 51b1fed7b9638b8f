//! Which weights must be resident, in which layouts, and what that takes.

use std::collections::BTreeSet;

use cajeta_abi::{FormatId, LayoutId, Problem, Regime, Shape};
use cajeta_catalog::op::Op;
use cajeta_model_arch::plan::{Plan, PlanTensor, TensorId};

use super::cover::{Choice, weight_key};
use crate::route::{Operand, Query, QueryStep, Registry, admit};

/// A weight in a layout: one tensor, or several packed together.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WeightKey {
    /// [`LayoutId::GGUF`] for the file's own bytes, or a layout of the backend's.
    pub layout: LayoutId,
    /// The tensors, in the order the row's steps name them.
    pub tensors: Vec<TensorId>,
}

impl WeightKey {
    /// The key of `tensors` in `layout`. A plain f32 vector is the file's own bytes.
    pub fn new(layout: LayoutId, tensors: Vec<TensorId>) -> WeightKey {
        let layout = if layout == LayoutId::PLAIN { LayoutId::GGUF } else { layout };
        WeightKey { layout, tensors }
    }

    /// Whether these are the file's own bytes.
    pub fn is_file(&self) -> bool {
        self.layout == LayoutId::GGUF
    }
}

/// The weights that chosen rows read.
pub(super) fn wanted(registry: &dyn Registry, choices: &[Choice]) -> BTreeSet<WeightKey> {
    let args = choices.iter().flat_map(|choice| {
        let row = &registry.rows()[choice.row];
        choice.args.iter().zip(row.args.iter()).map(|(bound, spec)| (bound, spec.layout))
    });
    args.filter_map(|(bound, layout)| weight_key(bound, layout)).collect()
}

/// The source shapes of a weight, as layouts and relayout rows are asked about them.
pub fn shapes(plan: &Plan, key: &WeightKey) -> Vec<Shape> {
    let shape = |tensor: &PlanTensor| Shape {
        format: FormatId(tensor.format.id()),
        rows: tensor.rows,
        width: tensor.width,
    };
    key.tensors.iter().map(|id| shape(plan.tensor(*id))).collect()
}

/// Bytes of a weight in its layout.
pub fn bytes(registry: &dyn Registry, plan: &Plan, key: &WeightKey) -> Result<u64, String> {
    if key.is_file() {
        return Ok(key.tensors.iter().map(|id| plan.tensor(*id).bytes).sum());
    }
    registry.layout_bytes(key.layout, &shapes(plan, key))
}

/// The problem of a relayout, as the catalog defines it.
pub fn relayout_problem(shapes: &[Shape]) -> Problem {
    let rows = |index: usize| shapes.get(index).map_or(0, |shape| shape.rows);
    Problem {
        n: rows(0),
        k: shapes.first().map_or(0, |shape| shape.width),
        m: rows(1),
        batch: 0,
        aux: rows(2),
    }
}

/// The row that makes a weight's layout from the file's bytes: highest priority first.
pub fn relayout_row(registry: &dyn Registry, plan: &Plan, key: &WeightKey) -> Option<usize> {
    let shapes = shapes(plan, key);
    let steps = [QueryStep { op: Op::Relayout, attrs: 0, problem: relayout_problem(&shapes), scalars: &[] }];
    let mut args: Vec<Operand> = shapes.iter().map(|shape| Operand::Weight(shape.format)).collect();
    args.push(Operand::Fixed);
    let query = Query { regime: Regime::BIND, steps: &steps, args: &args };
    let rows = registry.rows();
    let serves = |&index: &usize| {
        let row = &rows[index];
        let relayout = row.steps.len() == 1 && Op::from_id(row.steps[0].op) == Some(Op::Relayout);
        let makes =
            row.args.len() == args.len() && row.args.last().is_some_and(|out| out.layout == key.layout);
        relayout && makes && admit(registry, index, &query, &|_| true).is_ok()
    };
    (0..rows.len()).filter(serves).max_by_key(|&index| rows[index].priority)
}
