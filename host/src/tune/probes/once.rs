//! Comparisons that are made once per process and kept in memory: `matrixCoresPay`, whether the matrix
//! cores pay at all here, and `tileBeatsDeq`, the tile against the widened route.

use cajeta_abi::{Capability, FormatId, Problem, Regime, Row};
use cajeta_catalog::op::Op;

use crate::record::{Answered, Probe, Record};
use crate::tune::TuneError;
use crate::tune::tuning::{ArmId, Keep, Question, Timed, Tuning};

/// The name of the question about matrix cores.
pub const MATRIX_CORES_PAY: &str = "matrixCoresPay";
/// The name of the question about the tile and the widened route.
pub const TILE_BEATS_DEQ: &str = "tileBeatsDeq";

/// Two rows that do the same by different means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rivals {
    /// The one that declared order prefers.
    pub favoured: usize,
    /// The one that serves where the first does not pay.
    pub other: usize,
}

/// Whether a row runs on matrix cores.
pub fn is_matrix(row: &Row) -> bool {
    let matrix = [Capability::MATRIX_F16, Capability::MATRIX_INT8];
    row.needs.iter().any(|need| matrix.contains(&need.capability))
}

/// The first product of a prefill on matrix cores, and the first without them, that `admits` lets through;
/// nothing when there is no such pair.
pub fn matrix_rivals(rows: &[Row], format: FormatId, admits: &dyn Fn(&Row) -> bool) -> Option<Rivals> {
    let first = |matrix: bool| {
        let serves = |row: &Row| {
            let product = row.steps.len() == 1 && row.steps.iter().all(|step| step.op == Op::Matmul.id());
            let weight = row.args.iter().map(|spec| spec.format).find(|&format| format != FormatId::NONE);
            let asked = row.regime == Regime::PREFILL_BATCH && weight == Some(format);
            product && asked && is_matrix(row) == matrix && admits(row)
        };
        (0..rows.len()).filter(|&row| serves(&rows[row])).max_by_key(|&row| rows[row].priority)
    };
    Some(Rivals { favoured: first(true)?, other: first(false)? })
}

/// Times two rows.
pub trait Arms {
    /// Times the favoured row, then the other.
    ///
    /// # Errors
    /// Whatever keeps them from being timed.
    fn time(&mut self, rivals: Rivals, problem: &Problem) -> Result<Timed, TuneError>;
}

/// Settles whether the favoured row pays; kept in memory under `name`. Nothing while timing is held, or
/// when it cannot be timed.
///
/// # Errors
/// When the device is lost.
pub fn settle(
    tuning: &Tuning,
    name: &str,
    rows: &[Row],
    rivals: Rivals,
    problem: &Problem,
    arms: &mut dyn Arms,
) -> Result<Option<bool>, TuneError> {
    let arm = |row: usize| {
        let name = rows.get(row).map(|row| row.name.to_string()).unwrap_or_default();
        ArmId { name, code: None }
    };
    let ids = vec![arm(rivals.favoured), arm(rivals.other)];
    let question = Question { name: name.to_owned(), scope: name, arms: ids, keep: Keep::InMemory };
    let settled = tuning.settle(&question, &mut || arms.time(rivals, problem))?;
    Record::from(Probe {
        probe: name.to_owned(),
        answer: question.arms.get(settled.arm).map(|arm| arm.name.clone()).unwrap_or_default(),
        answered: settled.answered,
        timings: settled.timings,
        launches: settled.launches,
        not_stored: settled.not_stored,
    })
    .emit();
    Ok((settled.answered != Answered::Held).then_some(settled.arm == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::choice_tests::{needing, row};
    use crate::tune::tuning::Spent;
    use crate::tune::tuning::tests::{timed, tuning};

    struct Fake(Vec<f64>);

    impl Arms for Fake {
        fn time(&mut self, _rivals: Rivals, _problem: &Problem) -> Result<Timed, TuneError> {
            Ok(timed(&std::mem::take(&mut self.0)))
        }
    }

    #[test]
    fn the_first_of_each_kind_are_rivals_and_the_answer_stays_in_memory() {
        let batch = Regime::PREFILL_BATCH;
        let rows = [
            row("q4kPlain", "", batch, 3),
            needing(row("q4kWmma", "", batch, 5), Capability::MATRIX_F16),
            needing(row("q4kTc", "", batch, 9), Capability::MATRIX_INT8),
            row("q4kMatVec", "", Regime::DECODE_ROW, 9),
        ];
        let q4k = FormatId(12);
        let rivals = matrix_rivals(&rows, q4k, &|_| true).expect("a pair");
        assert_eq!(rivals, Rivals { favoured: 2, other: 0 });
        assert_eq!(matrix_rivals(&rows, q4k, &|row| !is_matrix(row)), None);
        assert_eq!(matrix_rivals(&rows, FormatId(14), &|_| true), None);

        let folder = tempfile::tempdir().expect("a folder");
        let choices = tuning(Some(folder.path()), None);
        let problem = Problem::default();
        let mut arms = Fake(vec![2.0, 1.0]);
        for _ in 0..2 {
            let pays = settle(&choices, MATRIX_CORES_PAY, &rows, rivals, &problem, &mut arms);
            assert_eq!(pays.expect("settled"), Some(false));
        }
        assert_eq!(choices.spent(), Spent { stored: 0, memory: 100 }, "once per process");
        assert_eq!(tuning(Some(folder.path()), None).store().recall(MATRIX_CORES_PAY), None);
    }
}
