//! Chooses the rows that cover a sequence: at each op the row that its table picks.

use std::rc::Rc;

use cajeta_abi::{FormatId, LayoutId, LayoutKind, Regime};
use cajeta_catalog::contract::{self, Role};
use cajeta_model_arch::plan::{Plan, TensorId};

use super::each::Each;
use super::pattern::{Bound, bind};
use super::question::{Packs, Questions};
use super::residents::{WeightKey, is_widened};
use super::sequence::{SeqOperand, Sequence};
use crate::route::rows::{OnDevice, ReadyState, RouteTables, RowCall, RowRoute, format_name, regime_name};
use crate::route::{NoRoute, Origin, PATTERN, Registry, Route, RouteRefusal, Unheld};

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
    /// How the choice came about.
    pub origin: Origin,
    /// Launches it takes: one, or one for each sequence of a step.
    pub launches: u64,
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
    /// The same, in tables.
    pub tables: &'a RouteTables<'a>,
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
        let questions = self.questions();
        let (device, ready) =
            (OnDevice(self.registry), Resident::new(self.registry, self.plan, self.resident));
        let each = Each::of(self);
        let mut choices = Vec::new();
        let mut start = 0;
        while let Some(op) = self.sequence.ops.get(start) {
            if let Some(choice) = each.as_ref().and_then(|each| each.choice(self, start)) {
                start += choice.len;
                choices.push(choice);
                continue;
            }
            let call = RowCall { query: questions.at(start), ready: &ready };
            let table = self.tables.table(op.op);
            let picked = table.pick(&call, &device, self.registry.preference());
            let picked = picked.and_then(|picked| self.bound(picked.route, start, picked.origin));
            let (kept, choice) = match picked {
                Some(choice) => (choices.len(), choice),
                None => self
                    .whole(start, &choices, &questions, &ready)
                    .ok_or_else(|| self.no_route(start, &call))?,
            };
            choices.truncate(kept);
            start = choice.start + choice.len;
            choices.push(choice);
        }
        Ok(choices)
    }

    fn bound(&self, route: &RowRoute<'_>, start: usize, origin: Origin) -> Option<Choice> {
        let len = route.covers();
        let ops = self.sequence.ops.get(start..start.checked_add(len)?)?;
        Some(Choice { row: route.index(), start, len, args: bind(route.row(), ops)?, origin, launches: 1 })
    }

    /// A fusion over an op that nothing serves by itself, and how many choices stay before it. One that is
    /// held back for its parts may begin with an op that has a row of its own, while the weights of the
    /// others are there for the fusion alone.
    fn whole(
        &self,
        unserved: usize,
        choices: &[Choice],
        questions: &Questions,
        ready: &Resident<'_>,
    ) -> Option<(usize, Choice)> {
        let (device, preference) = (OnDevice(self.registry), Unheld(self.registry.preference()));
        choices.iter().enumerate().rev().find_map(|(kept, Choice { start, .. })| {
            let table = self.tables.table(self.sequence.ops.get(*start)?.op);
            let call = RowCall { query: questions.at(*start), ready };
            let reaches = |route: &&RowRoute<'_>| start.saturating_add(route.covers()) > unserved;
            let mut whole = table.routes().iter().filter(reaches);
            let whole = whole.find(|route| table.clause(route, &call, &device, &preference).is_none())?;
            Some((kept, self.bound(whole, *start, Origin::Declared)?))
        })
    }

    pub(super) fn questions(&self) -> Questions {
        let device = OnDevice(self.registry);
        let mut packs = Packs::new(self.tables, self.registry.layouts(), self.regime, Some(&device));
        let mut packable = |value: &_| match self.edges {
            Edges::Packable => packs.of(value),
            Edges::Exact => Rc::default(),
        };
        Questions::new(self.plan, self.sequence, self.regime, &mut packable)
    }

    fn no_route(&self, start: usize, call: &RowCall<'_>) -> NoRoute {
        let op = &self.sequence.ops[start];
        let (device, table) = (OnDevice(self.registry), self.tables.table(op.op));
        let refusals = table.routes().iter().filter_map(|route| {
            table
                .refusal(route, call, &device, self.registry.preference())
                .filter(|refusal| refusal.gate != PATTERN)
        });
        let mut refusals: Vec<RouteRefusal> = refusals.collect();
        refusals.sort_by_key(|refusal| (std::cmp::Reverse(refusal.clause), refusal.is_other_format()));
        let weights = op.operands.iter().zip(contract::operands(op.op)).filter_map(|(operand, contract)| {
            let SeqOperand::Tensor(id) = operand else { return None };
            let format = format_name(FormatId(self.plan.tensor(*id).format.id()));
            (contract.role == Role::Weight).then(|| format!("{} {format}, ", contract.name))
        });
        let problem = op.problem;
        let refused = NoRoute {
            asked: self.sequence.describe(op),
            detail: format!(
                "{}M {} N {} K {}, {}",
                weights.collect::<String>(),
                problem.m,
                problem.n,
                problem.k,
                regime_name(self.regime)
            ),
            refusals,
        };
        tracing::debug!(target: "cajeta::route", "{}", refused.in_full());
        refused
    }
}

/// The moment: which weights are there, and which rows somebody chose others over.
pub(super) struct Resident<'a> {
    registry: &'a dyn Registry,
    plan: &'a Plan,
    resident: &'a dyn Fn(&WeightKey) -> bool,
}

impl<'a> Resident<'a> {
    /// The moment at which `resident` answers which weights of a plan are there.
    pub(super) fn new(
        registry: &'a dyn Registry,
        plan: &'a Plan,
        resident: &'a dyn Fn(&WeightKey) -> bool,
    ) -> Resident<'a> {
        Resident { registry, plan, resident }
    }
}

impl ReadyState for Resident<'_> {
    fn resident(&self, layout: LayoutId, tensors: &[TensorId]) -> bool {
        (self.resident)(&WeightKey::new(layout, tensors.iter().copied()))
    }

    fn overridden(&self, row: &str) -> bool {
        self.registry.overridden(row)
    }

    fn widen_declined(&self, tensors: &[TensorId]) -> bool {
        let layouts = self.registry.layouts().iter().zip(LayoutId::OWN.0..);
        let weights = layouts.filter(|(layout, _)| {
            layout.kind == LayoutKind::WEIGHT && layout.sources as usize == tensors.len()
        });
        let mut copies = weights.map(|(_, id)| WeightKey::new(LayoutId(id), tensors.iter().copied()));
        !copies.any(|key| (self.resident)(&key) && is_widened(self.registry, self.plan, &key))
    }
}

/// The weight an argument reads, if it reads one.
pub(super) fn weight_key(bound: &Bound, layout: LayoutId) -> Option<WeightKey> {
    let tensor = |operand: &SeqOperand| match operand {
        SeqOperand::Tensor(id) => Some(*id),
        _ => None,
    };
    match bound {
        Bound::One(operand) => Some(WeightKey::new(layout, [tensor(operand)?])),
        Bound::Packed(tensors) => Some(WeightKey::new(layout, tensors.iter().filter_map(tensor))),
    }
}
