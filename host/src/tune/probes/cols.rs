//! Whether one launch over several sequences beats as many launches of one row: `colsPays-q4k-b4`.
//!
//! The kernel is checked against the host's mat-vec first ([`super::host_check`]). One that is wrong is said to
//! be, and serves nowhere; where nobody can tell, the rows stay as declared.

use cajeta_abi::{FormatId, LayoutId, Problem, Regime, Row};
use cajeta_catalog::op::Op;
use cajeta_plugin_host::Device;

use super::host_check::HostCheck;
use super::product_args::Admits;
use crate::record::{Answered, Probe, Record};
use crate::route::Origin;
use crate::tune::Answers;
use crate::tune::bench::{Form, Piece, RowProbe, plain_scalars};
use crate::tune::declared::{first, is_alone, weight};
use crate::tune::site::Segments;
use crate::tune::tuning::{ArmId, Keep, Question, Timed, Tuning};
use crate::tune::{KernelSource, TuneError, key};

/// The forms by name.
const ONE: &str = "one launch";
const EACH: &str = "a launch a sequence";

/// What is asked: a weight, and how many sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The weight's format.
    pub format: FormatId,
    /// Sequences.
    pub columns: u64,
    /// Rows of the weight.
    pub n: u64,
    /// Columns of the weight.
    pub k: u64,
    /// The layout that the step over several sequences reads it in, where that is known.
    pub layout: Option<LayoutId>,
}

/// The rows compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The row over several sequences.
    pub cols: usize,
    /// The row over one.
    pub single: usize,
    /// What they multiply.
    pub asked: Asked,
}

impl Asked {
    /// What a launch over several sequences asks, where it begins with a product and is about its problem.
    pub fn of(row: &Row, problem: &Problem) -> Option<Asked> {
        let is_product = |step: usize| row.steps.get(step).is_some_and(|step| step.op == Op::Matmul.id());
        let begins = is_product(0) && is_product(row.problem_step as usize);
        let weight = weight(row).filter(|_| begins && row.regime == Regime::DECODE_COLS)?;
        let Problem { m, n, k, .. } = *problem;
        (m > 1).then_some(Asked { format: weight.format, columns: m, n, k, layout: Some(weight.layout) })
    }

    /// Values of the weight.
    pub fn size(&self) -> u64 {
        self.n.saturating_mul(self.k)
    }

    fn problem(&self, m: u64) -> Problem {
        Problem { m, n: self.n, k: self.k, batch: 1, aux: 0 }
    }
}

/// The first rows of both kinds that `admits` lets through, those first that read the weight as the step
/// does; nothing when one kind is missing.
pub fn pair(rows: &[Row], asked: &Asked, admits: &dyn Fn(&Row, &Problem) -> bool) -> Option<Pair> {
    let of = |regime: Regime, m: u64| {
        let serves = |row: &Row| {
            let asked_for =
                row.regime == regime && weight(row).is_some_and(|spec| spec.format == asked.format);
            is_alone(row, Op::Matmul) && asked_for && admits(row, &asked.problem(m))
        };
        let alike = |row: &Row| serves(row) && weight(row).map(|spec| spec.layout) == asked.layout;
        first(rows, &alike).or_else(|| first(rows, &serves))
    };
    let (cols, single) = (of(Regime::DECODE_COLS, asked.columns)?, of(Regime::DECODE_ROW, 1)?);
    Some(Pair { cols, single, asked: *asked })
}

/// What the probe asks to be launched.
pub trait Arms {
    /// Name and code of a row.
    fn arm(&self, row: usize) -> ArmId;

    /// Why nobody can tell whether the kernel over several sequences is right; nothing when the host can.
    fn unchecked(&self) -> Option<String>;

    /// How the kernel over several sequences differs from the host's mat-vec; nothing when it does not.
    ///
    /// # Errors
    /// Whatever keeps it from being launched.
    fn differs(&mut self) -> Result<Option<String>, TuneError>;

    /// Times a launch a sequence against one launch over all of them, in this order.
    ///
    /// # Errors
    /// Whatever keeps them from being timed.
    fn time(&mut self) -> Result<Timed, TuneError>;
}

/// What was found about a pair.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Whether the kernel over several sequences pays.
    Pays {
        /// Whether it does.
        pays: bool,
        /// How that was found.
        origin: Origin,
    },
    /// It is wrong: where it differs from the host's mat-vec.
    Wrong(String),
}

/// Settles a pair. Nothing while timing is held, or where the kernel can be checked by nobody, or not be
/// timed: the rows stay as declared then. What is wrong is remembered, and is wrong whatever somebody fixed.
///
/// # Errors
/// When the device is lost.
pub fn settle(tuning: &Tuning, arms: &mut dyn Arms, pair: &Pair) -> Result<Option<Found>, TuneError> {
    let name = key::cols_pays(pair.asked.format, pair.asked.columns);
    let cols = arms.arm(pair.cols);
    if let Some(difference) = tuning.wrong(&cols) {
        return Ok(Some(wrong(name, &cols, Answered::Stored, difference)));
    }
    let ids = vec![arms.arm(pair.single), cols.clone()];
    let question = Question { name: name.clone(), scope: &name, arms: ids, keep: Keep::Stored };
    let settled = tuning.settle(&question, &mut || {
        if let Some(why) = arms.unchecked() {
            let what = "the kernel over several sequences".to_owned();
            return Err(TuneError::Untimed {
                what,
                why: format!("nobody can tell whether it is right: {why}"),
            });
        }
        match arms.differs()? {
            None => arms.time(),
            Some(difference) => Err(TuneError::Wrong { row: cols.name.clone(), difference }),
        }
    });
    let settled = match settled {
        Err(TuneError::Wrong { difference, .. }) => {
            tuning.put_wrong(&cols, &difference);
            return Ok(Some(wrong(name, &cols, Answered::Measured, difference)));
        }
        settled => settled?,
    };
    let pays = settled.arm == 1;
    let origin = Origin::of(settled.answered);
    let known = origin != Origin::Declared;
    Record::from(Probe {
        probe: name,
        // Until it is known, the rows stay as declared.
        answer: if pays || !known { ONE } else { EACH }.to_owned(),
        answered: settled.answered,
        timings: settled.timings,
        launches: settled.launches,
        not_stored: settled.not_stored,
    })
    .emit();
    Ok(known.then_some(Found::Pays { pays, origin }))
}

/// Says that the kernel over several sequences is wrong.
fn wrong(probe: String, row: &ArmId, answered: Answered, difference: String) -> Found {
    let not_stored = Some(format!("`{}` differs from the host's mat-vec: {difference}", row.name));
    let answer = EACH.to_owned();
    Record::from(Probe { probe, answer, answered, not_stored, ..Probe::default() }).emit();
    Found::Wrong(difference)
}

/// The arms on a device.
pub struct DeviceArms<'a> {
    device: &'a Device,
    probe: &'a mut RowProbe,
    pair: Pair,
    check: Result<HostCheck<'a>, String>,
    in_place: &'a mut InPlace<'a>,
}

/// What a step launches over all sequences at once and for each, segment after segment, and how many
/// bytes of weights it reads; nothing where there is no step, or it is launched in one way alone.
pub type InPlace<'a> = dyn FnMut() -> Result<Option<([Segments; 2], u64)>, TuneError> + 'a;
/// Likewise under answers that say so of both.
pub type Trial<'a> = dyn FnMut(&[Answers]) -> Result<Option<([Segments; 2], u64)>, TuneError> + 'a;

impl<'a> DeviceArms<'a> {
    /// The arms of a pair. `admits` answers whether the device can run a row; they are timed in place
    /// where there is one.
    pub fn new(
        device: &'a Device,
        probe: &'a mut RowProbe,
        pair: Pair,
        admits: &Admits<'_>,
        in_place: &'a mut InPlace<'a>,
    ) -> DeviceArms<'a> {
        let check = HostCheck::new(device, pair.cols, &pair.asked.problem(pair.asked.columns), admits);
        DeviceArms { device, probe, pair, check, in_place }
    }

    fn row(&self, row: usize) -> Result<&'static Row, TuneError> {
        let missing = || TuneError::Untimed { what: format!("row {row}"), why: "it does not exist".into() };
        self.device.backend().rows().get(row).ok_or_else(missing)
    }
}

impl Arms for DeviceArms<'_> {
    fn arm(&self, row: usize) -> ArmId {
        let name = self.row(row).map(|row| row.name.to_string()).unwrap_or_default();
        ArmId { name, code: self.device.code_hash(row) }
    }

    fn unchecked(&self) -> Option<String> {
        self.check.as_ref().err().cloned()
    }

    fn differs(&mut self) -> Result<Option<String>, TuneError> {
        match &self.check {
            Ok(check) => check.differs(self.probe.timer().queue().queue()),
            Err(why) => Ok(Some(why.clone())),
        }
    }

    fn time(&mut self) -> Result<Timed, TuneError> {
        let Pair { cols, single, asked } = self.pair;
        let rows = |segments: &Segments| -> Vec<usize> {
            segments.iter().flatten().map(|launch| launch.row).collect()
        };
        if let Some(([one, each], step_bytes)) = (self.in_place)()?
            && rows(&one) != rows(&each)
        {
            return self.probe.segments(&[(EACH, each), (ONE, one)], step_bytes);
        }
        let form = |name: &str, row: usize, m: u64, times: u32| -> Result<Form, TuneError> {
            let scalars = plain_scalars(self.row(row)?)?;
            let pieces = vec![Piece { row, problem: asked.problem(m), scalars, times }];
            Ok(Form { name: name.to_owned(), pieces })
        };
        let columns = u32::try_from(asked.columns).unwrap_or(u32::MAX);
        let forms = [form(EACH, single, 1, columns)?, form(ONE, cols, asked.columns, 1)?];
        self.probe.forms(&forms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::tuning::tests::{timed, tuning};

    struct Fake {
        unchecked: bool,
        wrong: bool,
        medians: Vec<f64>,
        timed: usize,
        checked: usize,
    }

    impl Arms for Fake {
        fn arm(&self, row: usize) -> ArmId {
            ArmId { name: format!("row{row}"), code: None }
        }

        fn unchecked(&self) -> Option<String> {
            self.unchecked.then(|| "no relayout makes its weight".to_owned())
        }

        fn differs(&mut self) -> Result<Option<String>, TuneError> {
            self.checked += 1;
            Ok(self.wrong.then(|| "output 3".to_owned()))
        }

        fn time(&mut self) -> Result<Timed, TuneError> {
            self.timed += 1;
            Ok(timed(&self.medians))
        }
    }

    const PAIR: Pair = Pair { cols: 1, single: 2, asked: ASKED };
    const ASKED: Asked = Asked { format: FormatId(12), columns: 4, n: 64, k: 256, layout: None };

    fn fake(wrong: bool, medians: [f64; 2]) -> Fake {
        Fake { unchecked: false, wrong, medians: medians.to_vec(), timed: 0, checked: 0 }
    }

    fn pays(pays: bool, origin: Origin) -> Option<Found> {
        Some(Found::Pays { pays, origin })
    }

    #[test]
    fn the_faster_form_pays_and_is_remembered() {
        let folder = tempfile::tempdir().expect("a folder");
        for (medians, faster) in [([3.0, 1.0], true), ([1.0, 3.0], false)] {
            let first = tuning(Some(folder.path()), None);
            first.store().remember("unrelated", "1");
            let mut arms = fake(false, medians);
            let measured = settle(&first, &mut arms, &PAIR).expect("settled");
            assert_eq!(measured, pays(faster, Origin::Measured));
            let again = tuning(Some(folder.path()), None);
            let stored = settle(&again, &mut arms, &PAIR).expect("settled");
            assert_eq!(stored, pays(faster, Origin::Stored));
            assert_eq!((arms.timed, again.spent().stored), (1, 0), "a second load runs nothing");
            assert!(again.store().recall("colsPays-q4k-b4").is_some());
            std::fs::remove_dir_all(first.store().folder().expect("kept")).expect("cleared");
        }
    }

    #[test]
    fn a_kernel_that_is_wrong_is_said_to_be_whenever_it_is_asked_about() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut arms = fake(true, [100.0, 1.0]);
        for load in 0..2 {
            let tuning = tuning(Some(folder.path()), None);
            // Another load may be on a busy device, and times nothing.
            let _hold = (load > 0).then(|| tuning.hold());
            for _ in 0..2 {
                let settled = settle(&tuning, &mut arms, &PAIR).expect("settled");
                assert_eq!(settled, Some(Found::Wrong("output 3".to_owned())));
            }
            assert_eq!((arms.timed, tuning.store().recall("colsPays-q4k-b4")), (0, None));
        }
        assert_eq!(arms.checked, 1, "it is remembered");
        let other = Pair { cols: 7, ..PAIR };
        let mut right = fake(false, [3.0, 1.0]);
        let found = settle(&tuning(Some(folder.path()), None), &mut right, &other).expect("settled");
        assert_eq!(found, pays(true, Origin::Measured), "of another row nothing is known");
    }

    #[test]
    fn a_kernel_that_cannot_be_checked_stays_as_declared_unless_somebody_says_otherwise() {
        let tuning = tuning(None, None);
        let mut arms = Fake { unchecked: true, ..fake(false, [1.0, 100.0]) };
        for _ in 0..2 {
            assert_eq!(settle(&tuning, &mut arms, &PAIR).expect("settled"), None);
        }
        assert_eq!(arms.timed, 0);
        for (row, one) in [("row1", true), ("row2", false)] {
            tuning.set_override("colsPays-q4k-b4", Some(row));
            assert_eq!(settle(&tuning, &mut arms, &PAIR).expect("settled"), pays(one, Origin::Overridden));
        }
    }

    #[test]
    fn what_cannot_be_timed_stays_as_declared_however_often_it_is_asked() {
        let tuning = tuning(None, None);
        let mut arms = Fake { medians: vec![1.0], ..fake(false, [1.0, 1.0]) };
        for _ in 0..2 {
            assert_eq!(settle(&tuning, &mut arms, &PAIR).expect("settled"), None);
        }
        assert_eq!(arms.timed, 1, "nobody tries again");
    }

    #[test]
    fn nothing_is_said_while_timing_is_held() {
        let tuning = tuning(None, None);
        let _hold = tuning.hold();
        assert_eq!(settle(&tuning, &mut fake(false, [1.0, 2.0]), &PAIR).expect("held"), None);
    }
}
