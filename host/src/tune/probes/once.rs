//! Comparisons that are made once per load and kept in memory: `matrixCoresPay`, whether the matrix cores pay
//! at all here, and `tileBeatsDeq`, the tile over a file's blocks against the route over widened weights.

use std::collections::BTreeMap;

use cajeta_abi::{ArgSpec, FormatId, LayoutId, Problem, Regime, Row, Step};
use cajeta_catalog::op::Op;

use crate::record::{Answered, ArmTiming, Probe, Record};
use crate::tune::bench::{Form, Piece, RowProbe, plain_scalars};
use crate::tune::declared::{first, is_alone, is_matrix, weight};
use crate::tune::key::{self, DEQ, MATRIX, MATRIX_CORES_PAY, PLAIN, TILE, TILE_BEATS_DEQ};
use crate::tune::tuning::{ArmId, Keep, Question, Timed, Tuning};
use crate::tune::{KernelSource, TuneError};

/// Percent by which matrix cores must lead: less than that is not worth what they round.
const MATRIX_LEAD: f64 = 10.0;
/// Percent by which the widened route must lead: less is not worth the memory and the time that its copies
/// take.
const DEQ_LEAD: f64 = 10.0;

/// Two rows that do the same by different means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rivals {
    /// The one that declared order prefers.
    pub favoured: usize,
    /// The one that serves where the first does not pay.
    pub other: usize,
}

/// The layout in which a row reads weights of a format, if it is one product over them and nothing else.
fn product_over(row: &Row, regime: Regime, format: FormatId) -> Option<LayoutId> {
    let weight = weight(row)?;
    let asked_for = row.regime == regime && weight.format == format;
    (is_alone(row, Op::Matmul) && asked_for).then_some(weight.layout)
}

/// The first product of a regime on matrix cores, and the first without them, that `admits` lets through;
/// nothing when there is no such pair.
pub fn matrix_rivals(
    rows: &[Row],
    regime: Regime,
    format: FormatId,
    admits: &dyn Fn(&Row) -> bool,
) -> Option<Rivals> {
    let of = |matrix: bool| {
        let serves = |row: &Row| {
            product_over(row, regime, format).is_some() && is_matrix(row) == matrix && admits(row)
        };
        first(rows, &serves)
    };
    Some(Rivals { favoured: of(true)?, other: of(false)? })
}

/// The first product of a prefill over blocks, and the first over widened weights, that `admits` lets
/// through; nothing when there is no such pair, or declared order has the widened one first: then nobody
/// asks.
pub fn widened_rivals(
    rows: &[Row],
    format: FormatId,
    widens: &dyn Fn(LayoutId) -> bool,
    admits: &dyn Fn(&Row) -> bool,
) -> Option<Rivals> {
    let of = |widened: bool| {
        let serves = |row: &Row| {
            let layout = product_over(row, Regime::PREFILL_BATCH, format);
            layout.is_some_and(|layout| widens(layout) == widened) && admits(row)
        };
        first(rows, &serves)
    };
    let rivals = Rivals { favoured: of(false)?, other: of(true)? };
    (rows[rivals.favoured].priority >= rows[rivals.other].priority).then_some(rivals)
}

/// Rows of a prefill over blocks that step back, each with the one over widened weights that it steps back
/// for, where the widened route pays for some formats: with the layout it was found to pay in.
pub fn step_backs(
    rows: &[Row],
    pays: &BTreeMap<FormatId, LayoutId>,
    admits: &dyn Fn(&Row) -> bool,
) -> Vec<(usize, usize)> {
    let over_blocks = |row: &Row| {
        let mut weights = row.args.iter().filter(|spec| pays.contains_key(&spec.format));
        row.regime == Regime::PREFILL_BATCH && weights.any(|spec| spec.layout == LayoutId::GGUF)
    };
    let tiles = (0..rows.len()).filter(|&row| over_blocks(&rows[row]));
    let pairs = tiles.filter_map(|tile| {
        let counterpart = |row: &Row| are_counterparts(&rows[tile], row, pays) && admits(row);
        Some((tile, first(rows, &counterpart)?))
    });
    pairs.collect()
}

/// Whether `wide` does over widened weights, all of them of formats that pay, what `tile` does over blocks.
fn are_counterparts(tile: &Row, wide: &Row, pays: &BTreeMap<FormatId, LayoutId>) -> bool {
    let same_step = |(a, b): (&Step, &Step)| {
        a.op == b.op && a.attrs == b.attrs && a.operands.iter().eq(b.operands.iter())
    };
    let widened = |(a, b): &(&ArgSpec, &ArgSpec)| {
        a.layout == LayoutId::GGUF && a.layout != b.layout && pays.get(&b.format) == Some(&b.layout)
    };
    let alike = |(a, b): &(&ArgSpec, &ArgSpec)| a.format == b.format && a.access == b.access;
    let args = || tile.args.iter().zip(wide.args.iter());
    tile.regime == wide.regime
        && tile.steps.len() == wide.steps.len()
        && tile.args.len() == wide.args.len()
        && tile.steps.iter().zip(wide.steps.iter()).all(same_step)
        && args().all(|pair| alike(&pair) && (pair.0.layout == pair.1.layout || widened(&pair)))
        && args().any(|pair| widened(&pair))
}

/// Times two rows.
pub trait Arms {
    /// Times the favoured row, then the other.
    ///
    /// # Errors
    /// Whatever keeps them from being timed.
    fn time(&mut self, rivals: Rivals, problem: &Problem) -> Result<Timed, TuneError>;
}

impl Arms for RowProbe {
    fn time(&mut self, rivals: Rivals, problem: &Problem) -> Result<Timed, TuneError> {
        let form = |row: usize| -> Result<Form, TuneError> {
            let missing =
                || TuneError::Untimed { what: format!("row {row}"), why: "it does not exist".into() };
            let spec = self.device().rows().get(row).ok_or_else(missing)?;
            let pieces = vec![Piece { row, problem: *problem, scalars: plain_scalars(spec)?, times: 1 }];
            Ok(Form { name: spec.name.to_string(), pieces })
        };
        let forms = [form(rivals.favoured)?, form(rivals.other)?];
        self.forms(&forms)
    }
}

/// Which of the two questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asks {
    /// Whether matrix cores pay at all.
    MatrixCores,
    /// Whether the tile beats the widened route for a format.
    Tile(FormatId),
}

impl Asks {
    /// The name under which the answer is kept, and pinned.
    pub fn name(self) -> String {
        match self {
            Asks::MatrixCores => MATRIX_CORES_PAY.to_owned(),
            Asks::Tile(format) => key::tile_beats_deq(format),
        }
    }

    const fn scope(self) -> &'static str {
        match self {
            Asks::MatrixCores => MATRIX_CORES_PAY,
            Asks::Tile(_) => TILE_BEATS_DEQ,
        }
    }

    const fn arms(self) -> [&'static str; 2] {
        match self {
            Asks::MatrixCores => [MATRIX, PLAIN],
            Asks::Tile(_) => [TILE, DEQ],
        }
    }

    /// Whether the first arm serves, by what both took.
    fn favours(self, timings: &[ArmTiming]) -> Option<bool> {
        let [first, other] = timings else { return None };
        let leads =
            |a: &ArmTiming, b: &ArmTiming, percent: f64| b.median_ns > a.median_ns * (1.0 + percent / 100.0);
        Some(match self {
            Asks::MatrixCores => leads(first, other, MATRIX_LEAD),
            Asks::Tile(_) => !leads(other, first, DEQ_LEAD),
        })
    }
}

/// What a question found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Whether the favoured row serves.
    pub favoured: bool,
    /// How that came about.
    pub answered: Answered,
}

/// Settles whether the favoured row pays; kept in memory. Nothing while timing is held and nobody pinned
/// the answer, when it cannot be timed, or when others held much of the device meanwhile.
///
/// # Errors
/// When the device is lost.
pub fn settle(
    tuning: &Tuning,
    asks: Asks,
    rivals: Rivals,
    problem: &Problem,
    arms: &mut dyn Arms,
) -> Result<Option<Found>, TuneError> {
    let ids = asks.arms().map(|name| ArmId { name: name.to_owned(), code: None });
    let question =
        Question { name: asks.name(), scope: asks.scope(), arms: ids.to_vec(), keep: Keep::InMemory };
    let settled = tuning.settle(&question, &mut || arms.time(rivals, problem))?;
    // A lead that is too small to count may be the other's by the clock. What a device is found to do best
    // while others hold it is no premise: the first serves, as while timing is held.
    let doubtful = settled.not_stored.is_some();
    let favoured = doubtful || asks.favours(&settled.timings).unwrap_or(settled.arm == 0);
    Record::from(Probe {
        probe: question.name,
        answer: asks.arms()[usize::from(!favoured)].to_owned(),
        answered: settled.answered,
        timings: settled.timings,
        launches: settled.launches,
        not_stored: settled.not_stored,
    })
    .emit();
    let answered = settled.answered;
    let known = answered != Answered::Held && !doubtful;
    Ok(known.then_some(Found { favoured, answered }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::choice_tests::{needing, row};
    use crate::tune::tuning::Spent;
    use crate::tune::tuning::tests::{timed, tuning};
    use cajeta_abi::Capability;
    use cajeta_abi::abi_stable::std_types::RSlice;

    const Q4K: FormatId = FormatId(12);
    const WIDE: LayoutId = LayoutId::OWN;
    const BATCH: Regime = Regime::PREFILL_BATCH;

    struct Fake(Vec<f64>);

    impl Arms for Fake {
        fn time(&mut self, _rivals: Rivals, _problem: &Problem) -> Result<Timed, TuneError> {
            Ok(timed(&std::mem::take(&mut self.0)))
        }
    }

    /// The row over widened weights.
    fn wide(row: Row) -> Row {
        let mut args = row.args.to_vec();
        args[1].layout = WIDE;
        Row { args: RSlice::from_slice(args.leak()), ..row }
    }

    fn found(asks: Asks, medians: &[f64]) -> Option<bool> {
        let rivals = Rivals { favoured: 0, other: 1 };
        let mut arms = Fake(medians.to_vec());
        let found = settle(&tuning(None, None), asks, rivals, &Problem::default(), &mut arms);
        found.expect("not lost").map(|found| found.favoured)
    }

    #[test]
    fn the_first_of_each_kind_are_rivals_and_the_answer_stays_in_memory() {
        let rows = [
            row("q4kPlain", "", BATCH, 3),
            needing(row("q4kWmma", "", BATCH, 5), Capability::MATRIX_F16),
            needing(row("q4kTc", "", BATCH, 9), Capability::MATRIX_INT8),
            row("q4kMatVec", "", Regime::DECODE_ROW, 9),
        ];
        let rivals = matrix_rivals(&rows, BATCH, Q4K, &|_| true).expect("a pair");
        assert_eq!(rivals, Rivals { favoured: 2, other: 0 });
        assert_eq!(matrix_rivals(&rows, BATCH, Q4K, &|row| !is_matrix(row)), None);
        assert_eq!(matrix_rivals(&rows, BATCH, FormatId(14), &|_| true), None);
        assert_eq!(matrix_rivals(&rows, Regime::DECODE_COLS, Q4K, &|_| true), None);

        let folder = tempfile::tempdir().expect("a folder");
        let choices = tuning(Some(folder.path()), None);
        let mut arms = Fake(vec![2.0, 1.0]);
        for answered in [Answered::Measured, Answered::Stored] {
            let found = settle(&choices, Asks::MatrixCores, rivals, &Problem::default(), &mut arms);
            assert_eq!(found.expect("settled"), Some(Found { favoured: false, answered }));
        }
        assert_eq!(choices.spent(), Spent { stored: 0, memory: 100 }, "once per load");
        assert_eq!(tuning(Some(folder.path()), None).store().recall(MATRIX_CORES_PAY), None);
    }

    #[test]
    fn matrix_cores_and_widened_weights_must_lead_by_a_tenth() {
        for (plain, pays) in [(99.0, false), (105.0, false), (110.0, false), (110.1, true), (300.0, true)] {
            assert_eq!(found(Asks::MatrixCores, &[100.0, plain]), Some(pays), "{plain}");
        }
        for (tile, pays) in [(99.0, true), (109.9, true), (110.1, false), (200.0, false)] {
            assert_eq!(found(Asks::Tile(Q4K), &[tile, 100.0]), Some(pays), "{tile}");
        }
    }

    #[test]
    fn a_busy_device_settles_nothing() {
        let rivals = Rivals { favoured: 0, other: 1 };
        let mut arms = Fake(vec![200.0, 100.0]);
        let busy = tuning(None, Some(50));
        for _ in 0..2 {
            let found = settle(&busy, Asks::Tile(Q4K), rivals, &Problem::default(), &mut arms);
            assert_eq!(found.expect("not lost"), None, "nor when it is asked again");
        }
        assert_eq!(busy.spent().memory, 100, "it is not timed again");
    }

    #[test]
    fn a_pinned_answer_is_taken_while_timing_is_held() {
        let choices = tuning(None, None);
        let _hold = choices.hold();
        let rivals = Rivals { favoured: 0, other: 1 };
        let asked = || {
            let mut arms = Fake(Vec::new());
            settle(&choices, Asks::Tile(Q4K), rivals, &Problem::default(), &mut arms).expect("not lost")
        };
        assert_eq!(asked(), None);
        choices.set_override(TILE_BEATS_DEQ, Some(DEQ));
        assert_eq!(asked(), Some(Found { favoured: false, answered: Answered::Overridden }));
        choices.set_override(&Asks::Tile(Q4K).name(), Some(TILE));
        assert_eq!(asked().map(|found| found.favoured), Some(true), "one format before all");
        assert_eq!(Asks::Tile(Q4K).name(), "tileBeatsDeq-q4k");
    }

    #[test]
    fn the_widened_route_is_asked_about_where_the_tile_comes_first() {
        let widens = |layout| layout == WIDE;
        let rows = [
            row("q4kTile", "", BATCH, 9),
            wide(row("q4kDeq", "", BATCH, 5)),
            wide(row("q4kDeqSmall", "", BATCH, 4)),
        ];
        let rivals = widened_rivals(&rows, Q4K, &widens, &|_| true);
        assert_eq!(rivals, Some(Rivals { favoured: 0, other: 1 }));
        assert_eq!(widened_rivals(&rows[..1], Q4K, &widens, &|_| true), None);
        let first = [row("q4kTile", "", BATCH, 9), wide(row("q4kDeq", "", BATCH, 10))];
        assert_eq!(widened_rivals(&first, Q4K, &widens, &|_| true), None, "declared order says so");
    }

    #[test]
    fn rows_step_back_for_those_that_do_the_same_over_weights_that_pay() {
        let rows = [
            row("q4kTile", "", BATCH, 9),
            wide(row("q4kDeqSmall", "", BATCH, 4)),
            wide(row("q4kDeq", "", BATCH, 5)),
            row("q4kMatVec", "", Regime::DECODE_ROW, 9),
            wide(crate::tune::choice_tests::steps(row("q4kDeqAdd", "", BATCH, 6), &[Op::Matmul, Op::Add])),
        ];
        let pays = BTreeMap::from([(Q4K, WIDE)]);
        assert_eq!(step_backs(&rows, &pays, &|_| true), [(0, 2)]);
        let usable = |row: &Row| row.name.as_str() != "q4kDeq";
        assert_eq!(step_backs(&rows, &pays, &usable), [(0, 1)]);
        assert_eq!(step_backs(&rows, &BTreeMap::from([(FormatId(14), WIDE)]), &|_| true), []);
        let elsewhere = BTreeMap::from([(Q4K, LayoutId(WIDE.0 + 1))]);
        assert_eq!(step_backs(&rows, &elsewhere, &|_| true), []);
    }
}
