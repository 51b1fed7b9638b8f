//! What to run.

use serde::{Deserialize, Serialize};

/// A row that is known to fail, with the reason why that is accepted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Expected {
    /// The row's name.
    pub row: String,
    /// Why it is known to fail.
    pub reason: String,
}

/// How a suite runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Options {
    /// Repeats a run exactly.
    pub seed: u64,
    /// Fuzzed problems per row; the first ones are edge shapes.
    pub cases: u32,
    /// Only rows whose name contains this; checks of calls then do not run.
    pub filter: Option<String>,
    /// Rows that may fail. One that passes all the same is a failure.
    pub expected: Vec<Expected>,
}

impl Default for Options {
    fn default() -> Options {
        Options { seed: 1, cases: 6, filter: None, expected: Vec::new() }
    }
}
