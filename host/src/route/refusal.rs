//! Why a row, or every row, may not serve.

use std::fmt;

/// The clause of admission that refused, in the order they are tested.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Clause {
    /// A weight's format, or an op attribute, is not this row's.
    Format,
    /// The row serves another regime.
    Regime,
    /// A shape gate.
    Shape,
    /// The device lacks a capability.
    Unsupported,
    /// A run-time gate.
    Ready,
}

impl Clause {
    /// The clause's name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Clause::Format => "format",
            Clause::Regime => "regime",
            Clause::Shape => "shape",
            Clause::Unsupported => "unsupported",
            Clause::Ready => "ready",
        }
    }
}

/// One row's refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The row's index in the registry.
    pub row: usize,
    /// The clause that refused.
    pub clause: Clause,
    /// The row's own name for the constraint.
    pub gate: String,
}

/// No row serves an op: every row that computes it, with the gate that refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoRoute {
    /// The op asked for, with its place: `matmul blk.3.attn_q`.
    pub asked: String,
    /// Formats and regime asked for.
    pub detail: String,
    /// `(row name, clause, gate)`, the one that got furthest first.
    pub refusals: Vec<(String, Clause, String)>,
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no kernel serves {} ({})", self.asked, self.detail)?;
        if self.refusals.is_empty() {
            return write!(f, ": the backend has no row for this op");
        }
        for (row, clause, gate) in &self.refusals {
            write!(f, "\n  {row}: {}: {gate}", clause.name())?;
        }
        Ok(())
    }
}

impl std::error::Error for NoRoute {}
