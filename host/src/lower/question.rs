//! The ops of a sequence as rows are asked about them: one window an op, from it on.

use std::collections::HashMap;
use std::rc::Rc;

use cajeta_abi::{FormatId, Layout, LayoutId, LayoutKind, Problem, Regime};
use cajeta_catalog::op::Op;
use cajeta_model_arch::plan::{Half, Plan};

use super::sequence::{SeqOp, SeqOperand, Sequence, ValueInfo};
use crate::route::rows::{QueryOperand, QueryStep, RouteTables, RowQuery, RowRoute};
use crate::route::{Capabilities, RouteTable};

/// The questions of a sequence.
pub(super) struct Questions {
    steps: Vec<QueryStep>,
    regime: Regime,
}

impl Questions {
    /// `packable` answers which layouts packs would bring a value into.
    pub(super) fn new(
        plan: &Plan,
        sequence: &Sequence,
        regime: Regime,
        packable: &mut dyn FnMut(&ValueInfo) -> Rc<[LayoutId]>,
    ) -> Questions {
        let mut uses = vec![0usize; sequence.values.len()];
        for operand in sequence.ops.iter().flat_map(|op| &op.operands) {
            if let SeqOperand::Value(value) = operand
                && let Some(count) = uses.get_mut(value.0)
            {
                *count += 1;
            }
        }
        let mut operand = |operand: &SeqOperand| match *operand {
            SeqOperand::Value(value) => {
                let info = &sequence.values[value.0];
                let (layout, packable) = (info.layout, packable(info));
                QueryOperand::Value { value: value.0, layout, packable, uses: uses[value.0] }
            }
            SeqOperand::Tensor(tensor) => {
                let format = FormatId(plan.tensor(tensor).format.id());
                QueryOperand::Weight { tensor, format }
            }
            SeqOperand::State(section) => QueryOperand::Fixed(section as u64),
            SeqOperand::WholeState => QueryOperand::Fixed(1 << 32),
            SeqOperand::Plane(layer, half) => {
                let half = u64::from(half == Half::V);
                QueryOperand::Fixed((2 << 32) | (u64::from(layer) << 1) | half)
            }
            SeqOperand::Absent => QueryOperand::Absent,
        };
        let step = |op: &SeqOp| QueryStep {
            op: op.op,
            attrs: op.attrs,
            problem: op.problem,
            scalars: op.scalars.clone(),
            operands: op.operands.iter().map(&mut operand).collect(),
            apart: takes_rows_apart(sequence, op),
        };
        Questions { steps: sequence.ops.iter().map(step).collect(), regime }
    }

    /// The question of the op at `start`.
    pub(super) fn at(&self, start: usize) -> RowQuery<'_> {
        RowQuery::new(self.regime, self.steps.get(start..).unwrap_or(&[]))
    }
}

/// Whether a norm has more rows than the value it reads.
fn takes_rows_apart(sequence: &Sequence, op: &SeqOp) -> bool {
    let read = match op.operands.first() {
        Some(SeqOperand::Value(value)) => sequence.values.get(value.0),
        _ => None,
    };
    op.op == Op::Norm && read.is_some_and(|value| value.rows != op.problem.m)
}

/// Which layouts pack rows bring values into, remembered by shape.
pub(super) struct Packs<'a> {
    /// Layouts of activations that the backend owns.
    own: Vec<LayoutId>,
    regime: Regime,
    known: HashMap<(LayoutId, u64, u64), Rc<[LayoutId]>>,
    table: &'a RouteTable<RowRoute<'a>>,
    /// Absent where no device is asked.
    device: Option<&'a dyn Capabilities>,
}

impl<'a> Packs<'a> {
    pub(super) fn new(
        tables: &'a RouteTables<'a>,
        layouts: &[Layout],
        regime: Regime,
        device: Option<&'a dyn Capabilities>,
    ) -> Packs<'a> {
        let layouts = (LayoutId::OWN.0..).zip(layouts);
        let own = layouts.filter(|(_, layout)| layout.kind == LayoutKind::ACTIVATION);
        let own = own.map(|(id, _)| LayoutId(id)).collect();
        Packs { own, regime, known: HashMap::new(), table: tables.table(Op::Pack), device }
    }

    /// The layouts a value can be brought into.
    pub(super) fn of(&mut self, value: &ValueInfo) -> Rc<[LayoutId]> {
        let (own, regime, table, device) = (&self.own, self.regime, self.table, self.device);
        let serves = |step: &QueryStep| {
            let query = RowQuery::new(regime, std::slice::from_ref(step));
            device.map_or_else(|| table.declared(&query), |device| table.admissible(&query, device)).is_some()
        };
        let key = (value.layout, value.rows, value.width);
        let packed = || own.iter().copied().filter(|&to| to != value.layout && serves(&pack_step(value, to)));
        self.known.entry(key).or_insert_with(|| packed().collect()).clone()
    }
}

fn pack_step(value: &ValueInfo, to: LayoutId) -> QueryStep {
    let operand = |value, layout| QueryOperand::Value { value, layout, packable: [].into(), uses: 1 };
    QueryStep {
        op: Op::Pack,
        attrs: 0,
        problem: Problem { m: value.rows, k: value.width, ..Problem::default() },
        scalars: Vec::new(),
        operands: vec![operand(0, value.layout), operand(1, to)],
        apart: false,
    }
}
