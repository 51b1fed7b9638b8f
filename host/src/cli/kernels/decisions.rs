//! What stands behind the row of a launch: the question it answered with its timings, and what the
//! filter makes of the members of its family.

use std::collections::HashMap;

use cajeta::filter::{Fill, Padding, Pruned};
use cajeta::lower::{Explained, Placed};
use cajeta::record::ArmTiming;
use cajeta::route::rows::RowRoute;
use cajeta::route::{Clause, Origin};
use cajeta::tune::store::Autotune;
use cajeta::tune::{Answers, Asked, TileFamily, Tuning};
use cajeta_abi::{Problem, Regime, Row};
use cajeta_catalog::op::Op;
use cajeta_plugin_host::Device;
use serde::Serialize;

/// Where answers and facts come from.
pub(super) struct Decisions<'a> {
    pub(super) device: &'a Device,
    pub(super) answers: &'a Answers,
    /// What this process asked, and knows.
    pub(super) tuning: &'a Tuning,
    /// What the next one will know.
    pub(super) files: &'a Autotune,
}

/// A question that was settled before, or just now.
#[derive(Serialize, PartialEq, Clone)]
pub(super) struct Question {
    /// Its name in the store.
    pub(super) name: String,
    /// Its answer.
    pub(super) answer: String,
    /// How that came about: `measured`, `stored` or `overridden`.
    pub(super) answered: &'static str,
    /// What each arm took.
    pub(super) timings: Vec<Timing>,
    /// Such as that it was a tie.
    pub(super) note: Option<String>,
    /// Whether the next load finds it. One that is fixed, or measured while others hold the device, is not
    /// kept.
    pub(super) kept: bool,
}

#[derive(Serialize, PartialEq, Clone)]
pub(super) struct Timing {
    pub(super) arm: String,
    /// Nanoseconds of one launch.
    pub(super) median_ns: f64,
}

/// What the filter records of a member that the device can run.
#[derive(Serialize, PartialEq, Clone, Copy, Default)]
pub(super) struct Notes {
    /// R5: how much of the device its grid fills.
    pub(super) fill: Option<FillNote>,
    /// R6: what it computes beyond the problem.
    pub(super) padding: Option<PaddingNote>,
}

#[derive(Serialize, PartialEq, Clone, Copy)]
pub(super) struct FillNote {
    /// Blocks of its grid.
    blocks: u64,
    /// Blocks that fill the device.
    to_fill: u64,
    /// The split that would fill it; absent where none does.
    split: Option<u32>,
}

#[derive(Serialize, PartialEq, Clone, Copy)]
pub(super) struct PaddingNote {
    m: u64,
    n: u64,
    wasted_percent: f64,
}

/// A member that the device cannot run.
#[derive(Serialize, PartialEq, Clone)]
pub(super) struct PrunedFacts {
    pub(super) row: String,
    /// `R1` to `R4`.
    pub(super) rule: String,
    /// What was counted.
    pub(super) what: &'static str,
    pub(super) need: u64,
    pub(super) limit: u64,
}

/// What stands behind one launch.
#[derive(Default)]
pub(super) struct Decision {
    /// What was asked about its row.
    pub(super) questions: Vec<Question>,
    /// By row, what the filter recorded of the members that run.
    pub(super) notes: HashMap<usize, Notes>,
    /// Members that do not run.
    pub(super) pruned: Vec<PrunedFacts>,
    /// Why the launch cannot run at all.
    pub(super) error: Option<String>,
}

impl Decisions<'_> {
    /// What stands behind a launch and its choice.
    pub(super) fn of(&self, placed: &Placed, choice: &Explained) -> Decision {
        let rows = self.device.backend().rows();
        // Members that anything but the filter stops are arms with a refusal.
        let admits = |row: &Row| {
            choice.arms.iter().any(|arm| {
                let stopped = arm.refusal.as_ref().is_some_and(|refusal| refusal.clause != Clause::Ready);
                !stopped && rows.get(arm.row).is_some_and(|known| known.name == row.name)
            })
        };
        let family = TileFamily::of_row(rows, placed.row, &admits);
        let mut decision = Decision::default();
        // Whether one launch for all sequences pays is asked of a step's products by their format.
        let columns = if choice.launches > 1 { choice.launches } else { placed.problem.m };
        let together = choice.launches > 1 || choice.regime == Regime::DECODE_COLS;
        let name = (together && choice.op == Op::Matmul)
            .then(|| self.answers.cols_question(choice.format, columns))
            .flatten();
        decision.questions.extend(name.and_then(|name| self.question(&name)));
        // A fusion that lost to its parts was asked about in the place of the first of them.
        let lost = choice.arms.iter().filter(|arm| {
            arm.ahead && arm.refusal.as_ref().is_some_and(|refusal| refusal.clause == Clause::Ready)
        });
        for row in std::iter::once(placed.row).chain(lost.map(|arm| arm.row)) {
            decision.questions.extend(self.questions(row, &placed.problem, &placed.scalars));
        }
        let facts = self.device.facts();
        let pruned = match family.filtered(self.device, facts, &placed.problem, &placed.scalars) {
            Ok((filtered, _)) => {
                decision.notes = filtered
                    .survivors
                    .iter()
                    .map(|survivor| (survivor.candidate.row, Notes::of(survivor.fill, survivor.padding)))
                    .collect();
                filtered.pruned
            }
            Err(error) => {
                decision.error = Some(error.to_string());
                error.pruned
            }
        };
        if decision.error.is_none()
            && let Some(stop) = pruned.iter().find(|pruned| pruned.row == placed.row)
        {
            decision.error = Some(stop.to_string());
        }
        decision.pruned = pruned.iter().map(PrunedFacts::of).collect();
        decision
    }

    fn questions(&self, index: usize, problem: &Problem, scalars: &[u8]) -> Vec<Question> {
        let backend = self.device.backend();
        let row = backend.rows().get(index);
        let Some((_, route)) = row.and_then(|row| RowRoute::new(index, row, backend.layouts())) else {
            return Vec::new();
        };
        let names = self.answers.questions(&route, problem, scalars);
        names.into_iter().filter_map(|name| self.question(name)).collect()
    }

    /// What was asked under a name, as it was answered for the kernels there are: what other builds of them
    /// took is no part of it.
    fn question(&self, name: &str) -> Option<Question> {
        let Asked { arm, answered, build } = self.tuning.asked(name)?;
        let answered = Origin::of(answered);
        if answered == Origin::Declared {
            return None;
        }
        let timed = answered != Origin::Overridden;
        let known = self.tuning.store().recall_for(name, &build).filter(|_| timed);
        let timing = |timing: &ArmTiming| Timing { arm: timing.arm.clone(), median_ns: timing.median_ns };
        let timings = known.iter().flat_map(|known| &known.timings).map(timing).collect();
        Some(Question {
            name: name.to_owned(),
            answer: arm,
            answered: answered.name(),
            timings,
            note: known.and_then(|known| known.note),
            kept: timed && self.files.recall_for(name, &build).is_some(),
        })
    }
}

impl Notes {
    fn of(fill: Option<Fill>, padding: Option<Padding>) -> Notes {
        let fill = fill.map(|Fill { blocks, to_fill, split }| FillNote { blocks, to_fill, split });
        let padding = padding.map(|Padding { m, n, wasted_percent }| PaddingNote { m, n, wasted_percent });
        Notes { fill, padding }
    }
}

impl PrunedFacts {
    fn of(pruned: &Pruned) -> PrunedFacts {
        let Pruned { name, rule, what, need, limit, .. } = pruned;
        PrunedFacts { row: name.clone(), rule: format!("{rule:?}"), what, need: *need, limit: *limit }
    }
}
