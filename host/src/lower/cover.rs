//! Chooses the rows that cover a sequence: at each op the admissible row of highest priority, the
//! longer pattern on a tie, then the name.

use std::collections::HashMap;

use cajeta_abi::{Access, FormatId, LayoutId, Regime};
use cajeta_catalog::contract::{self, Role};
use cajeta_catalog::op::Op;
use cajeta_model_arch::plan::{Plan, TensorId};

use super::pattern::{Bound, match_row};
use super::residents::WeightKey;
use super::sequence::{SeqOperand, SeqValue, Sequence};
use crate::route::{Clause, NoRoute, Operand, Query, QueryStep, Refusal, Registry, admit};

/// A row chosen for a run of ops.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Index in the registry.
    pub row: usize,
    /// First op covered.
    pub start: usize,
    /// Ops covered.
    pub len: usize,
    /// One per `Row::args`.
    pub args: Vec<Bound>,
}

/// How strictly a row's activation inputs are held to the values' layouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edges {
    /// An input may be in any layout a pack row can make from the plain value.
    Packable,
    /// Inputs are what they are.
    Exact,
}

/// What a cover is chosen for.
pub(super) struct Cover<'a> {
    /// The device's rows.
    pub registry: &'a dyn Registry,
    /// The model.
    pub plan: &'a Plan,
    /// The ops.
    pub sequence: &'a Sequence,
    /// The regime of all ops but those of the token tail.
    pub regime: Regime,
    /// Whether a weight is there in a layout.
    pub resident: &'a dyn Fn(&WeightKey) -> bool,
    /// How inputs are held.
    pub edges: Edges,
}

impl Cover<'_> {
    /// Covers the whole sequence.
    ///
    /// # Errors
    /// At the first op that no row serves, with every row's refusal.
    pub(super) fn choose(&self) -> Result<Vec<Choice>, NoRoute> {
        let by_op = self.rows_by_first_op();
        let mut choices = Vec::new();
        let mut start = 0;
        while let Some(op) = self.sequence.ops.get(start) {
            let rows = by_op.get(&op.op).map_or(&[][..], Vec::as_slice);
            let choice = self.pick(rows, start).map_err(|refusals| self.no_route(start, refusals))?;
            start += choice.len;
            choices.push(choice);
        }
        Ok(choices)
    }

    /// Rows by the op they begin with, best first.
    fn rows_by_first_op(&self) -> HashMap<Op, Vec<usize>> {
        let rows = self.registry.rows();
        let mut by_op: HashMap<Op, Vec<usize>> = HashMap::new();
        for (index, row) in rows.iter().enumerate() {
            if let Some(op) = row.steps.first().and_then(|step| Op::from_id(step.op)) {
                by_op.entry(op).or_default().push(index);
            }
        }
        for list in by_op.values_mut() {
            list.sort_by(|&a, &b| {
                let (a, b) = (&rows[a], &rows[b]);
                let order = b.priority.cmp(&a.priority).then(b.steps.len().cmp(&a.steps.len()));
                order.then_with(|| a.name.as_str().cmp(b.name.as_str()))
            });
        }
        by_op
    }

    fn pick(&self, rows: &[usize], start: usize) -> Result<Choice, Vec<Refusal>> {
        let mut refusals = Vec::new();
        for &index in rows {
            let row = &self.registry.rows()[index];
            let Some(args) = match_row(row, self.sequence, start) else { continue };
            let len = row.steps.len();
            match self.admits(index, start, len, &args) {
                Ok(()) => return Ok(Choice { row: index, start, len, args }),
                Err(refusal) => refusals.push(refusal),
            }
        }
        Err(refusals)
    }

    fn admits(&self, index: usize, start: usize, len: usize, args: &[Bound]) -> Result<(), Refusal> {
        let row = &self.registry.rows()[index];
        let ops = &self.sequence.ops[start..start + len];
        let steps: Vec<QueryStep<'_>> = ops
            .iter()
            .map(|op| QueryStep { op: op.op, attrs: op.attrs, problem: op.problem, scalars: &op.scalars })
            .collect();
        let mut operands = Vec::with_capacity(args.len());
        for (position, bound) in args.iter().enumerate() {
            operands.push(self.operand(index, position, bound)?);
        }
        let tail = ops.iter().any(|op| matches!(op.op, Op::Argmax | Op::Sample | Op::Advance));
        let regime = if tail { Regime::FUSED_TAIL } else { self.regime };
        let query = Query { regime, steps: &steps, args: &operands };
        let resident = |position: usize| match weight_key(&args[position], row.args[position].layout) {
            Some(key) => (self.resident)(&key),
            None => true,
        };
        admit(self.registry, index, &query, &resident)
    }

    /// What the query says of one argument.
    fn operand(&self, index: usize, position: usize, bound: &Bound) -> Result<Operand, Refusal> {
        let spec = &self.registry.rows()[index].args[position];
        let refuse = |gate: String| Err(Refusal { row: index, clause: Clause::Format, gate });
        match bound {
            Bound::Packed(tensors) => {
                let layout = (spec.layout.0 - LayoutId::OWN.0) as usize;
                let sources = self.registry.layouts().get(layout).map(|layout| layout.sources as usize);
                if sources != Some(tensors.len()) {
                    return refuse(format!("argument {position} packs {} tensors", tensors.len()));
                }
                let formats = tensors.iter().filter_map(|operand| self.format(operand));
                let odd = formats.into_iter().find(|format| *format != spec.format);
                Ok(Operand::Weight(odd.unwrap_or(spec.format)))
            }
            Bound::One(SeqOperand::Tensor(id)) => {
                if let Some(layout) = spec.layout.0.checked_sub(LayoutId::OWN.0)
                    && self.registry.layouts().get(layout as usize).is_none_or(|layout| layout.sources != 1)
                {
                    return refuse(format!("argument {position} packs several tensors"));
                }
                Ok(Operand::Weight(FormatId(self.plan.tensor(*id).format.id())))
            }
            Bound::One(SeqOperand::Value(id)) => {
                let layout = self.sequence.values[id.0].layout;
                let packable = self.edges == Edges::Packable
                    && spec.access == Access::READ
                    && spec.layout != layout
                    && self.packable(*id, spec.layout);
                Ok(Operand::Activation(if packable { spec.layout } else { layout }))
            }
            Bound::One(SeqOperand::Absent) => Ok(Operand::Absent),
            Bound::One(_) => Ok(Operand::Fixed),
        }
    }

    /// Whether some pack row makes `layout` from this value.
    fn packable(&self, value: SeqValue, layout: LayoutId) -> bool {
        let info = &self.sequence.values[value.0];
        let problem = cajeta_abi::Problem { m: info.rows, k: info.width, ..Default::default() };
        let steps = [QueryStep { op: Op::Pack, attrs: 0, problem, scalars: &[] }];
        let args = [Operand::Activation(info.layout), Operand::Activation(layout)];
        let query = Query { regime: self.regime, steps: &steps, args: &args };
        self.registry.rows().iter().enumerate().any(|(index, row)| {
            let pack = row.steps.len() == 1 && Op::from_id(row.steps[0].op) == Some(Op::Pack);
            pack && row.args.len() == 2 && admit(self.registry, index, &query, &|_| true).is_ok()
        })
    }

    fn format(&self, operand: &SeqOperand) -> Option<FormatId> {
        match operand {
            SeqOperand::Tensor(id) => Some(FormatId(self.plan.tensor(*id).format.id())),
            _ => None,
        }
    }

    fn no_route(&self, start: usize, mut refusals: Vec<Refusal>) -> NoRoute {
        let op = &self.sequence.ops[start];
        refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.clause));
        let rows = self.registry.rows();
        let weights = op.operands.iter().zip(contract::operands(op.op)).filter_map(|(operand, contract)| {
            let format = self.format(operand)?;
            let name = cajeta_catalog::quant::type_name(format.0).unwrap_or("?");
            (contract.role == Role::Weight).then(|| format!("{} {name}, ", contract.name))
        });
        let problem = op.problem;
        NoRoute {
            asked: self.sequence.describe(op),
            detail: format!(
                "{}M {} N {} K {}, regime {}",
                weights.collect::<String>(),
                problem.m,
                problem.n,
                problem.k,
                self.regime.0
            ),
            refusals: refusals
                .into_iter()
                .map(|refusal| (rows[refusal.row].name.to_string(), refusal.clause, refusal.gate))
                .collect(),
        }
    }
}

/// The weight an argument reads, if it reads one.
pub(super) fn weight_key(bound: &Bound, layout: LayoutId) -> Option<WeightKey> {
    let tensors: Vec<TensorId> = match bound {
        Bound::One(SeqOperand::Tensor(id)) => vec![*id],
        Bound::Packed(tensors) => tensors
            .iter()
            .filter_map(|operand| match operand {
                SeqOperand::Tensor(id) => Some(*id),
                _ => None,
            })
            .collect(),
        Bound::One(_) => return None,
    };
    Some(WeightKey::new(layout, tensors))
}
