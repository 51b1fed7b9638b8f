//! A question of measuring, and what settled it.

use crate::record::{Answered, ArmTiming};

/// One of the things to choose from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArmId {
    /// Its name, which is the answer where it wins.
    pub name: String,
    /// Hash of its code, if there is one.
    pub code: Option<[u8; 32]>,
}

/// How long an answer is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// In the store, for the build that was measured.
    Stored,
    /// Likewise, with the lead beside it under the name and `.margin`.
    WithMargin,
    /// In memory, once per [`super::Tuning`]: a load has one.
    InMemory,
}

/// What is to be settled. Arms come by priority: the first serves while nothing is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question<'a> {
    /// The answer's name: see [`super::key`].
    pub name: String,
    /// The name under which somebody may fix the answer: a family, or the answer's own name.
    pub scope: &'a str,
    /// What there is to choose from.
    pub arms: Vec<ArmId>,
    /// How long the answer is kept.
    pub keep: Keep,
}

/// What a measurement found and cost.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Timed {
    /// One per arm, in order.
    pub timings: Vec<ArmTiming>,
    /// Launches that were made.
    pub launches: u64,
}

/// A question that is settled.
#[derive(Clone, PartialEq, Debug)]
pub struct Settled {
    /// Index of the arm that serves.
    pub arm: usize,
    /// How that came about.
    pub answered: Answered,
    /// Percent by which it leads, where it was timed now.
    pub lead_percent: Option<f64>,
    /// Whether the lead is too small to mean anything.
    pub tie: bool,
    /// What was timed, now or when it was stored.
    pub timings: Vec<ArmTiming>,
    /// Launches it cost now.
    pub launches: u64,
    /// Why a measured answer is not kept.
    pub not_stored: Option<String>,
}

/// What was found about a fusion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Whether it is to serve.
    pub pays: bool,
    /// How that came about.
    pub answered: Answered,
    /// The name of the question.
    pub question: String,
}

/// Launches that measuring cost.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Spent {
    /// For answers the store keeps: none on a second load.
    pub stored: u64,
    /// For answers kept in memory.
    pub memory: u64,
}

impl Settled {
    pub(super) fn known(arm: usize, answered: Answered) -> Settled {
        Settled {
            arm,
            answered,
            lead_percent: None,
            tie: false,
            timings: Vec::new(),
            launches: 0,
            not_stored: None,
        }
    }
}
