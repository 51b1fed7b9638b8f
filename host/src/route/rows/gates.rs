//! Shape gates of rows: what they look at, and whether they hold.

use cajeta_abi::{Row, ShapeGate, Subject, Test};
use cajeta_catalog::contract;

use super::query::QueryStep;

/// The value a gate looks at; `None` when no step has such a thing.
///
/// A gate looks at the step the launch's problem is of, then at the others in order: head sizes belong
/// to the attention of a fusion whose problem is a projection's.
pub(super) fn value(gate: &ShapeGate, row: &Row, steps: &[QueryStep]) -> Option<u64> {
    let steps = steps.get(..row.steps.len())?;
    let first = row.problem_step as usize;
    let order = std::iter::once(first).chain((0..steps.len()).filter(|&step| step != first));
    order
        .filter_map(|step| steps.get(step))
        .find_map(|step| contract::subject(step.op, &step.problem, &step.scalars, gate.subject))
}

/// Whether a gate admits what it looks at.
pub(super) fn holds(gate: &ShapeGate, value: Option<u64>) -> bool {
    let Some(value) = value else { return false };
    match (gate.test, gate.values.first().copied()) {
        (Test::MULTIPLE_OF, Some(of)) => of != 0 && value % of == 0,
        (Test::AT_MOST, Some(limit)) => value <= limit,
        (Test::AT_LEAST, Some(limit)) => value >= limit,
        (Test::ONE_OF, _) => gate.values.contains(&value),
        // A test this host does not know cannot be vouched for.
        _ => false,
    }
}

/// The letter or name of what a gate looks at.
pub(super) fn subject_name(subject: Subject) -> &'static str {
    match subject {
        Subject::M => "M",
        Subject::N => "N",
        Subject::K => "K",
        Subject::BATCH => "batch",
        Subject::AUX => "aux",
        Subject::HEAD_DIM => "head size",
        Subject::GROUP => "group",
        Subject::ROPE_DIM => "rope size",
        _ => "subject",
    }
}
