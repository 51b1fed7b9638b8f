//! Launches for each sequence of a step alone, where one launch over all of them was measured to be
//! slower. Nothing is timed here: the answers are remembered ones.

use std::rc::Rc;

use cajeta_abi::{LayoutId, Regime, Row};
use cajeta_catalog::op::Op;

use super::cover::{Choice, Cover, Resident};
use super::pattern::{Bound, bind};
use super::question::{Packs, Questions};
use super::sequence::{SeqOp, SeqOperand};
use crate::route::rows::{OnDevice, RouteTables, RowCall, format_operand};
use crate::route::{Origin, Registry, Route, RouteQuery};

/// What is asked of a step's products with one row each.
pub(super) struct Each {
    questions: Questions,
    sequences: u64,
}

impl Each {
    /// The questions of a step over several sequences. Nothing where one launch pays for every weight,
    /// or there is one sequence.
    pub(super) fn of(cover: &Cover<'_>) -> Option<Each> {
        let Cover { registry, tables, plan, sequence, regime, .. } = *cover;
        if regime != Regime::DECODE_COLS {
            return None;
        }
        let products = || sequence.ops.iter().filter(|op| op.op == Op::Matmul);
        let sequences = products().map(|op| op.problem.m).max().filter(|&sequences| sequences > 1)?;
        products().find_map(|op| {
            let weight = format_operand(op.op).and_then(|at| op.operands.get(at));
            let Some(SeqOperand::Tensor(id)) = weight else { return None };
            registry.launch_each(cajeta_abi::FormatId(plan.tensor(*id).format.id()), sequences)
        })?;
        let mut alone = sequence.clone();
        let of_all = |rows: &&mut u64| **rows == sequences;
        alone.ops.iter_mut().map(|op| &mut op.problem.m).filter(of_all).for_each(|rows| *rows = 1);
        alone.values.iter_mut().map(|value| &mut value.rows).filter(of_all).for_each(|rows| *rows = 1);
        // A row that wants its input packed is found whichever pass asks, so that both decide alike.
        let questions = questions(registry, tables, plan, &alone);
        Some(Each { questions, sequences })
    }

    /// How it was found that a launch for each sequence beats one launch over the product at `start`;
    /// nothing where one pays or it is no product.
    pub(super) fn found(&self, cover: &Cover<'_>, start: usize) -> Option<Origin> {
        let op = cover.sequence.ops.get(start)?;
        if op.op != Op::Matmul || op.problem.m != self.sequences {
            return None;
        }
        cover.registry.launch_each(self.questions.at(start).format(), self.sequences)
    }

    /// The question of the op at `start` with one row.
    pub(super) fn question(&self, start: usize) -> crate::route::rows::RowQuery<'_> {
        self.questions.at(start)
    }

    /// The row that serves the ops from `start` on, sequence by sequence. Nothing where one launch pays
    /// or what it reads and writes cannot be cut into rows.
    pub(super) fn choice(&self, cover: &Cover<'_>, start: usize) -> Option<Choice> {
        let origin = self.found(cover, start)?;
        let (device, ready) =
            (OnDevice(cover.registry), Resident::new(cover.registry, cover.plan, cover.resident));
        let call = RowCall { query: self.question(start), ready: &ready };
        let picked = cover.tables.table(Op::Matmul).pick(&call, &device, cover.registry.preference())?;
        let len = picked.route.covers();
        let ops = cover.sequence.ops.get(start..start.checked_add(len)?)?;
        let args = bind(picked.route.row(), ops)?;
        let row = picked.route.dispatch(&call);
        let launches = self.sequences;
        self.cuts(cover, picked.route.row(), ops, &args).then_some(Choice {
            row,
            start,
            len,
            args,
            origin,
            launches,
        })
    }

    /// Whether every argument is a weight, or has a row for each sequence that begins where the kernel
    /// can read it.
    fn cuts(&self, cover: &Cover<'_>, row: &Row, ops: &[SeqOp], args: &[Bound]) -> bool {
        let rows = ops.iter().all(|op| op.problem.m == self.sequences);
        rows && args.iter().zip(row.args.iter()).all(|(bound, spec)| match bound {
            Bound::One(SeqOperand::Value(value)) => {
                let info = &cover.sequence.values[value.0];
                let plain = info.layout == LayoutId::PLAIN && spec.layout == LayoutId::PLAIN;
                let row_bytes = info.width.checked_mul(4);
                let aligned = |bytes: u64| bytes.is_multiple_of(u64::from(spec.align.max(1)));
                plain && info.rows == self.sequences && row_bytes.is_some_and(aligned)
            }
            Bound::One(SeqOperand::Tensor(_) | SeqOperand::Absent) | Bound::Packed(_) => true,
            Bound::One(SeqOperand::State(_) | SeqOperand::WholeState | SeqOperand::Plane(..)) => false,
        })
    }
}

fn questions(
    registry: &dyn Registry,
    tables: &RouteTables<'_>,
    plan: &cajeta_model_arch::plan::Plan,
    alone: &super::sequence::Sequence,
) -> Questions {
    let device = OnDevice(registry);
    let mut packs = Packs::new(tables, registry.layouts(), Regime::DECODE_ROW, Some(&device));
    let mut packable = |value: &_| -> Rc<[LayoutId]> { packs.of(value) };
    Questions::new(plan, alone, Regime::DECODE_ROW, &mut packable)
}
