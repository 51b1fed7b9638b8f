//! The rules, what they prune and what they record.

use std::fmt;

/// A rule of the filter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Rule {
    /// Prunes a kernel that spills.
    R1,
    /// Prunes when threads times registers exceed the register file.
    R2,
    /// Prunes when shared bytes exceed the per-block limit, opt-in included.
    R3,
    /// Prunes when no block is resident on a multiprocessor.
    R4,
    /// Never prunes; records whether the grid fills the device.
    R5,
    /// Never prunes; records what the shape wastes at the problem.
    R6,
}

/// A candidate the device cannot run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pruned {
    /// Index of its row.
    pub row: usize,
    /// Its name.
    pub name: String,
    /// The rule that pruned it.
    pub rule: Rule,
    /// What was counted: `shared bytes of a block`.
    pub what: &'static str,
    /// How many it needs.
    pub need: u64,
    /// How many there are.
    pub limit: u64,
}

impl fmt::Display for Pruned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pruned { name, rule, what, need, limit, .. } = self;
        write!(f, "{name}: {rule:?}: {need} {what}, at most {limit}")
    }
}

/// R5: how much of the device a grid fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fill {
    /// Blocks of the grid.
    pub blocks: u64,
    /// Blocks that fill the device once.
    pub to_fill: u64,
    /// Parts of the reduction that would fill it; 1 when the grid does, `None` when no split the row
    /// takes would.
    pub split: Option<u32>,
}

impl Fill {
    /// Whether the grid fills the device as it is.
    pub fn fills(&self) -> bool {
        self.blocks >= self.to_fill
    }
}

/// R6: what a shape computes beyond the problem.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Padding {
    /// Rows, padded to the shape's grain.
    pub m: u64,
    /// Outputs, likewise.
    pub n: u64,
    /// Percent of the work that is padding.
    pub wasted_percent: f64,
}
