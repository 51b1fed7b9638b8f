//! What is asked of the rows: a run of ops with their declared facts, nothing bound.

use cajeta_abi::{FormatId, LayoutId, Problem, Regime};
use cajeta_catalog::op::Op;

/// One op of the run a row would serve.
#[derive(Clone, Debug)]
pub struct QueryStep<'a> {
    /// What it computes.
    pub op: Op,
    /// Its attributes.
    pub attrs: u64,
    /// Its problem.
    pub problem: Problem,
    /// Its scalar block.
    pub scalars: &'a [u8],
}

/// What one launch argument would be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// A weight stored so in the file.
    Weight(FormatId),
    /// An activation arranged so.
    Activation(LayoutId),
    /// Step state or a K/V plane, whose layouts the catalog fixes.
    Fixed,
    /// An optional operand that is not there.
    Absent,
}

/// The question: may this row serve these ops in this regime, with these arguments?
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// The regime asked for.
    pub regime: Regime,
    /// The ops, one per step of the row.
    pub steps: &'a [QueryStep<'a>],
    /// The arguments, one per `Row::args`.
    pub args: &'a [Operand],
}
