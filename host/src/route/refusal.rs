//! Why nothing serves: built on the path that already refused.

use std::fmt;

use cajeta_abi::{FormatId, Regime};

use super::clause::Clause;

/// The row that got furthest, and what stopped it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteRefusal {
    /// The table.
    pub table: String,
    /// The question in words.
    pub asked: String,
    /// The regime asked for.
    pub regime: Regime,
    /// The format asked for.
    pub format: FormatId,
    /// The row; empty where the table is.
    pub row: String,
    /// The clause that refused it.
    pub clause: Clause,
    /// The row's own name for the constraint.
    pub gate: String,
    /// Index in the row's needs of the capability that is missing.
    pub need: Option<usize>,
}

impl fmt::Display for RouteRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouteRefusal { table, asked, row, clause, gate, .. } = self;
        match clause {
            Clause::Empty => write!(f, "{table} has no row; asked for {asked}"),
            _ => {
                write!(f, "no row of {table} serves {asked}; furthest came {row}: {}: {gate}", clause.name())
            }
        }
    }
}

impl std::error::Error for RouteRefusal {}

/// No row serves an op: every row that computes it, with the gate that refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoRoute {
    /// The op asked for, with its place: `matmul blk.3.attn_q`.
    pub asked: String,
    /// Formats and regime asked for.
    pub detail: String,
    /// One a row, the one that got furthest first.
    pub refusals: Vec<RouteRefusal>,
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no kernel serves {} ({})", self.asked, self.detail)?;
        if self.refusals.is_empty() {
            return write!(f, ": the backend has no row for this op");
        }
        for RouteRefusal { row, clause, gate, .. } in &self.refusals {
            write!(f, "\n  {row}: {}: {gate}", clause.name())?;
        }
        Ok(())
    }
}

impl std::error::Error for NoRoute {}
