//! What `kernels MODEL` answers, as JSON has it.

use cajeta::lower::{Arm, Explained, Place, Placed, Program};
use cajeta::route::Registry;
use cajeta_abi::{FormatId, Row};
use serde::Serialize;

use super::decisions::{Decision, Decisions, Notes, PrunedFacts, Question};
use crate::cli::facts::{format_name, layout_name};
use crate::cli::lowering::Lowering;

#[derive(Serialize)]
pub(super) struct Report {
    pub(super) model: String,
    pub(super) backend: String,
    pub(super) device: String,
    pub(super) segments: Vec<SegmentFacts>,
    /// Overrides that fix nothing here.
    pub(super) unused_overrides: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct SegmentFacts {
    pub(super) segment: &'static str,
    pub(super) rows: u32,
    /// Sequences that a step is of.
    pub(super) sequences: u32,
    pub(super) context: u32,
    arena_bytes: u64,
    scratch_bytes: u64,
    pub(super) launches: Vec<Launch>,
}

#[derive(Serialize, PartialEq, Clone)]
pub(super) struct Launch {
    /// The op and the value it writes.
    pub(super) what: String,
    pub(super) row: String,
    /// Where the choice came from: `declared`, `measured`, `stored` or `overridden`.
    pub(super) chosen: &'static str,
    /// Why the row was to step back, where it serves because no other is admitted.
    pub(super) despite: Option<String>,
    /// Launches of it: one, or one for each sequence.
    pub(super) launches: u64,
    pub(super) split: u32,
    pub(super) problem: ProblemFacts,
    /// Format and layout of each weight argument.
    pub(super) weights: Vec<String>,
    /// Layout of each other argument.
    pub(super) layouts: Vec<String>,
    /// What was measured about the choice.
    pub(super) questions: Vec<Question>,
    /// What the filter records of the row at this problem.
    #[serde(flatten)]
    pub(super) notes: Notes,
    /// Members of the row's family that the device cannot run.
    pub(super) pruned: Vec<PrunedFacts>,
    /// Why it cannot run at all.
    pub(super) error: Option<String>,
    /// Other rows for the same ops, format and regime, in the order they are tried.
    pub(super) alternatives: Vec<Alternative>,
}

/// A row that does not serve.
#[derive(Serialize, PartialEq, Clone)]
pub(super) struct Alternative {
    pub(super) row: String,
    /// Whether it is tried before the row that serves.
    pub(super) ahead: bool,
    /// The clause that refused it; absent when it is admitted and stands behind.
    pub(super) clause: Option<&'static str>,
    /// Its gate.
    pub(super) gate: Option<String>,
    /// Every gate it has, with the value it sees.
    pub(super) gates: Vec<Gate>,
    /// What the filter records of it.
    #[serde(flatten)]
    pub(super) notes: Notes,
}

#[derive(Serialize, PartialEq, Clone)]
pub(super) struct Gate {
    pub(super) gate: String,
    pub(super) value: String,
    pub(super) holds: bool,
}

#[derive(Serialize, PartialEq, Clone, Copy)]
pub(super) struct ProblemFacts {
    pub(super) m: u64,
    pub(super) n: u64,
    pub(super) k: u64,
    pub(super) batch: u64,
    pub(super) aux: u64,
}

/// The sizes of a segment.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) rows: u32,
    pub(super) sequences: u32,
    pub(super) context: u32,
}

impl SegmentFacts {
    /// A lowered segment and how its rows were chosen. A choice may take several launches, which differ by
    /// their sequence alone; the first stands for them.
    pub(super) fn new(
        shape: Shape,
        lowering: &Lowering<'_>,
        decisions: &Decisions<'_>,
        program: &Program,
        choices: &[Explained],
    ) -> SegmentFacts {
        let mut placed = program.launches.iter();
        let launches = choices.iter().filter_map(|choice| {
            let first = placed.next()?;
            for _ in 1..choice.launches {
                placed.next();
            }
            Some(launch(lowering, first, choice, decisions.of(first, choice)))
        });
        SegmentFacts {
            segment: shape.name,
            rows: shape.rows,
            sequences: shape.sequences,
            context: shape.context,
            arena_bytes: program.arena,
            scratch_bytes: program.scratch,
            launches: launches.collect(),
        }
    }
}

fn launch(lowering: &Lowering<'_>, placed: &Placed, choice: &Explained, decision: Decision) -> Launch {
    let (rows, layouts_of) = (lowering.registry.rows(), lowering.registry.layouts());
    let row: &Row = &rows[placed.row];
    let (mut weights, mut layouts) = (Vec::new(), Vec::new());
    for (spec, place) in row.args.iter().zip(&placed.args) {
        let layout = layout_name(spec.layout, spec.dtype, layouts_of);
        match place {
            Place::Weight(_) if spec.format != FormatId::NONE => {
                weights.push(format!("{} {layout}", format_name(spec.format)));
            }
            Place::Absent => {}
            _ => layouts.push(layout),
        }
    }
    let notes = |row: usize| decision.notes.get(&row).copied().unwrap_or_default();
    let problem = placed.problem;
    Launch {
        what: placed.what.clone(),
        row: row.name.to_string(),
        chosen: choice.origin.name(),
        despite: choice.despite.clone(),
        launches: choice.launches,
        split: placed.split,
        problem: ProblemFacts {
            m: problem.m,
            n: problem.n,
            k: problem.k,
            batch: problem.batch,
            aux: problem.aux,
        },
        weights,
        layouts,
        notes: notes(placed.row),
        alternatives: choice.arms.iter().map(|arm| alternative(rows, arm, notes(arm.row))).collect(),
        questions: decision.questions,
        pruned: decision.pruned,
        error: decision.error,
    }
}

fn alternative(rows: &[Row], arm: &Arm, notes: Notes) -> Alternative {
    let gates = arm.gates.iter().map(|gate| Gate {
        gate: gate.gate.clone(),
        value: gate.value.clone(),
        holds: gate.holds,
    });
    Alternative {
        row: rows.get(arm.row).map(|row| row.name.to_string()).unwrap_or_default(),
        ahead: arm.ahead,
        clause: arm.refusal.as_ref().map(|refusal| refusal.clause.name()),
        gate: arm.refusal.as_ref().map(|refusal| refusal.gate.clone()),
        gates: gates.collect(),
        notes,
    }
}
