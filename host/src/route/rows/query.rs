//! What is asked of a plugin's rows: an op with its declared facts, and the ops that follow it.

use std::ops::Deref;
use std::rc::Rc;

use cajeta_abi::{Access, FormatId, LayoutId, Problem, Regime};
use cajeta_catalog::contract::{self, Role};
use cajeta_catalog::op::Op;
use cajeta_model_arch::plan::TensorId;

use super::names::{attribute_names, format_name, regime_name};
use crate::route::preference::Preference;
use crate::route::query::{RouteCall, RouteQuery};

/// One op of the run a row would serve.
#[derive(Clone, PartialEq, Debug)]
pub struct QueryStep {
    /// What it computes.
    pub op: Op,
    /// Its attributes.
    pub attrs: u64,
    /// Its problem.
    pub problem: Problem,
    /// Its scalar block.
    pub scalars: Vec<u8>,
    /// Its operands in the catalog's order.
    pub operands: Vec<QueryOperand>,
    /// Whether it takes the rows of its input apart (the norm of each head). A fusion knows its steps'
    /// sizes from the values they share, so such an op is no part of one.
    pub apart: bool,
}

/// What one operand of an op is.
#[derive(Clone, PartialEq, Debug)]
pub enum QueryOperand {
    /// A weight, and how the file stores it.
    Weight {
        /// Which.
        tensor: TensorId,
        /// Its format in the file.
        format: FormatId,
    },
    /// An activation.
    Value {
        /// Which.
        value: usize,
        /// How it is arranged.
        layout: LayoutId,
        /// Layouts that a pack would bring it into, when packs are free.
        packable: Rc<[LayoutId]>,
        /// How many operands of the whole sequence name it.
        uses: usize,
    },
    /// Step state or a K/V plane, whose layouts the catalog fixes. Equal numbers are one thing.
    Fixed(u64),
    /// An optional operand that is not there.
    Absent,
}

impl QueryOperand {
    /// Whether both name one thing.
    pub(super) fn is(&self, other: &QueryOperand) -> bool {
        match (self, other) {
            (QueryOperand::Weight { tensor: a, .. }, QueryOperand::Weight { tensor: b, .. }) => a == b,
            (QueryOperand::Value { value: a, .. }, QueryOperand::Value { value: b, .. }) => a == b,
            (QueryOperand::Fixed(a), QueryOperand::Fixed(b)) => a == b,
            (QueryOperand::Absent, QueryOperand::Absent) => true,
            _ => false,
        }
    }
}

/// The question: which row serves the first of these ops, alone or with those that follow?
#[derive(Clone, Copy, Debug)]
pub struct RowQuery<'a> {
    regime: Regime,
    format: FormatId,
    steps: &'a [QueryStep],
}

impl<'a> RowQuery<'a> {
    /// A question about the first of `steps`. `regime` is that of every op but those of the token tail,
    /// which have their own.
    pub fn new(regime: Regime, steps: &'a [QueryStep]) -> RowQuery<'a> {
        let first = steps.first().and_then(|step| step.operands.get(format_operand(step.op)?));
        let format = match first {
            Some(QueryOperand::Weight { format, .. }) => *format,
            _ => FormatId::NONE,
        };
        RowQuery { regime, format, steps }
    }

    /// The op asked for and all that follow it.
    pub fn steps(&self) -> &'a [QueryStep] {
        self.steps
    }

    /// The op asked for.
    pub fn op(&self) -> Option<Op> {
        self.steps.first().map(|step| step.op)
    }
}

/// The operand whose format is an op's format: the first weight it always reads.
pub fn format_operand(op: Op) -> Option<usize> {
    contract::operands(op).iter().position(|operand| {
        operand.role == Role::Weight && operand.access == Access::READ && operand.attr == 0
    })
}

fn of_the_tail(op: Op) -> bool {
    matches!(op, Op::Argmax | Op::Sample | Op::Advance)
}

impl RouteQuery for RowQuery<'_> {
    fn regime(&self) -> Regime {
        self.regime_of(1)
    }

    fn format(&self) -> FormatId {
        self.format
    }

    fn regime_of(&self, ops: usize) -> Regime {
        let tail = self.steps.iter().take(ops).any(|step| of_the_tail(step.op));
        if tail { Regime::FUSED_TAIL } else { self.regime }
    }

    fn describe(&self) -> String {
        let Some(step) = self.steps.first() else { return "nothing".into() };
        let Problem { m, n, k, .. } = step.problem;
        let mut words = step.op.name().to_owned();
        if step.attrs != 0 {
            words = format!("{words}+{}", attribute_names(step.attrs));
        }
        if self.format != FormatId::NONE {
            words = format!("{words} {}", format_name(self.format));
        }
        format!("{words}, M {m} N {n} K {k}, {}", regime_name(self.regime()))
    }

    fn regime_name(regime: Regime) -> String {
        regime_name(regime)
    }

    fn format_name(format: FormatId) -> String {
        format_name(format)
    }
}

/// What changes while a program runs, as rows' ready gates ask about it.
pub trait ReadyState {
    /// Whether weights are there in a layout: one tensor, or several packed together.
    fn resident(&self, layout: LayoutId, tensors: &[TensorId]) -> bool;

    /// Whether the budget declined a widened copy of weights, so that a row which reads them as they are
    /// serves. It does until somebody widens.
    fn widen_declined(&self, tensors: &[TensorId]) -> bool {
        let _ = tensors;
        true
    }

    /// Whether projections of several rows are routed at all.
    fn routing(&self) -> bool {
        true
    }

    /// Whether somebody forced another row than this one.
    fn overridden(&self, row: &str) -> bool {
        let _ = row;
        false
    }
}

/// What measurement has to say about rows of a plugin.
pub type RowPreference<'a> = dyn for<'c> Preference<RowCall<'c>> + 'a;

/// A question about to be launched.
#[derive(Clone, Copy)]
pub struct RowCall<'a> {
    /// The declared part.
    pub query: RowQuery<'a>,
    /// The moment.
    pub ready: &'a dyn ReadyState,
}

impl<'a> RouteCall for RowCall<'a> {
    type Query = RowQuery<'a>;
    /// The number a launch names its row by.
    type Launch = usize;

    fn query(&self) -> &RowQuery<'a> {
        &self.query
    }
}

/// The tensors of one argument, in step order; held in place, so that asking about them costs nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Tensors {
    ids: [TensorId; Tensors::MAX],
    len: usize,
}

impl Tensors {
    /// Most tensors that are packed together.
    pub const MAX: usize = 3;

    /// No tensor yet.
    pub const NONE: Tensors = Tensors { ids: [TensorId(0); Tensors::MAX], len: 0 };

    /// Adds one. Beyond [`Tensors::MAX`] it is left out, and false is answered.
    pub fn push(&mut self, tensor: TensorId) -> bool {
        let slot = self.ids.get_mut(self.len);
        let fits = slot.map(|slot| *slot = tensor).is_some();
        self.len += usize::from(fits);
        fits
    }
}

impl Deref for Tensors {
    type Target = [TensorId];

    fn deref(&self) -> &[TensorId] {
        self.ids.get(..self.len).unwrap_or(&[])
    }
}

impl FromIterator<TensorId> for Tensors {
    fn from_iter<I: IntoIterator<Item = TensorId>>(tensors: I) -> Tensors {
        let mut all = Tensors::NONE;
        for tensor in tensors {
            all.push(tensor);
        }
        all
    }
}

impl<'a> IntoIterator for &'a Tensors {
    type Item = &'a TensorId;
    type IntoIter = std::slice::Iter<'a, TensorId>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
