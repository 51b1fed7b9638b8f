//! Which weights must be resident, in which layouts, and what that takes.

use std::collections::BTreeSet;

use cajeta_abi::{FormatId, LayoutId, Problem, Regime, Shape};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_model_arch::plan::{Plan, PlanTensor, TensorId};

use super::cover::{Choice, weight_key};
use crate::route::Registry;
use crate::route::rows::{OnDevice, QueryOperand, QueryStep, RouteTables, RowQuery, Tensors};

/// A weight in a layout: one tensor, or several packed together.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WeightKey {
    /// [`LayoutId::GGUF`] for the file's own bytes, or a layout of the backend's.
    pub layout: LayoutId,
    /// The tensors, in the order the row's steps name them.
    pub tensors: Tensors,
}

impl WeightKey {
    /// The key of `tensors`, at most [`Tensors::MAX`], in `layout`. A plain f32 vector is the file's own
    /// bytes.
    pub fn new(layout: LayoutId, tensors: impl IntoIterator<Item = TensorId>) -> WeightKey {
        let layout = if layout == LayoutId::PLAIN { LayoutId::GGUF } else { layout };
        WeightKey { layout, tensors: tensors.into_iter().collect() }
    }

    /// Whether these are the file's own bytes.
    pub fn is_file(&self) -> bool {
        self.layout == LayoutId::GGUF
    }
}

/// Fourths of its sources that a layout may take before it counts as widened. Blocks that are rearranged
/// stay about what they were: scales padded to words add less than a tenth. Blocks that are decoded grow
/// by more than this, from the largest formats to f16 (8.5 bits to 16) as from 4 bits to int8.
const WIDENED_FOURTHS: u64 = 5;
/// Rows and values of the weight whose size in a layout says whether it is widened: so many that what a
/// small tensor's last tile pads does not count.
const LARGE: u64 = 4096;

/// Whether a layout holds weights of some formats widened: in so much more memory than the file's blocks
/// that it is made within a budget of its own.
pub fn widens(registry: &dyn Registry, layout: LayoutId, formats: impl Iterator<Item = FormatId>) -> bool {
    if layout.0 < LayoutId::OWN.0 {
        return false;
    }
    let shapes: Vec<Shape> = formats.map(|format| Shape { format, rows: LARGE, width: LARGE }).collect();
    let block_bytes = |shape: &Shape| Format::from_id(shape.format.0)?.row_bytes(LARGE)?.checked_mul(LARGE);
    let Some(sources) = shapes.iter().map(block_bytes).sum::<Option<u64>>() else { return false };
    let bytes = registry.layout_bytes(layout, &shapes);
    bytes.is_ok_and(|bytes| bytes.saturating_mul(4) > sources.saturating_mul(WIDENED_FOURTHS))
}

/// Whether a weight is a widened copy of its tensors.
pub fn is_widened(registry: &dyn Registry, plan: &Plan, key: &WeightKey) -> bool {
    let formats = key.tensors.iter().map(|id| FormatId(plan.tensor(*id).format.id()));
    widens(registry, key.layout, formats)
}

/// The widened copies that chosen rows read, in their order. Those of one row come together: it serves
/// with all of them or not at all, so a copy that two rows read is in the groups of both.
pub(super) fn widened_groups(
    registry: &dyn Registry,
    plan: &Plan,
    choices: &[Choice],
) -> Vec<Vec<WeightKey>> {
    let groups = choices.iter().map(|choice| {
        let keys = wanted(registry, std::slice::from_ref(choice)).into_iter();
        keys.filter(|key| is_widened(registry, plan, key)).collect()
    });
    groups.filter(|group: &Vec<WeightKey>| !group.is_empty()).collect()
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

/// The row that makes a weight's layout from the file's bytes, by the order of the relayout table.
pub fn relayout_row(registry: &dyn Registry, plan: &Plan, key: &WeightKey) -> Option<usize> {
    let step = relayout_step(&shapes(plan, key), key)?;
    let query = RowQuery::new(Regime::BIND, std::slice::from_ref(&step));
    let table = RouteTables::only(Op::Relayout, registry);
    table.admissible(&query, &OnDevice(registry)).map(|route| route.index())
}

/// A relayout of a weight as rows are asked about it: its sources, those it has not, and the result.
fn relayout_step(shapes: &[Shape], key: &WeightKey) -> Option<QueryStep> {
    let sources = Tensors::MAX;
    let weights = key.tensors.iter().zip(shapes);
    let weights = weights.map(|(&tensor, shape)| QueryOperand::Weight { tensor, format: shape.format });
    let mut operands: Vec<QueryOperand> = weights.collect();
    if operands.is_empty() || operands.len() > sources {
        return None;
    }
    operands.resize(sources, QueryOperand::Absent);
    operands.push(QueryOperand::Value { value: 0, layout: key.layout, packable: [].into(), uses: 1 });
    Some(QueryStep {
        op: Op::Relayout,
        attrs: 0,
        problem: relayout_problem(shapes),
        scalars: Vec::new(),
        operands,
        apart: false,
    })
}
