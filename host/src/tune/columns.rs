//! Whether one launch over several sequences pays, format by format.
//!
//! A step is asked about its launch over the largest weight of each format. The answer holds for all weights of
//! the format, and that is what most of the time goes to.

use std::collections::BTreeMap;

use cajeta_abi::{Problem, Row};
use cajeta_catalog::op::Op;
use cajeta_plugin_host::Device;

use super::answers::Answers;
use super::bench::{RowProbe, plain_scalars};
use super::error::TuneError;
use super::probes::cols::{self, Asked, Found, Pair};
use super::site::{Segments, Site};
use super::tuning::Tuning;
use crate::route::Origin;

/// A launch over several sequences, and what it asks.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Largest {
    /// What it asks.
    pub asked: Asked,
    /// Its row.
    pub row: usize,
    /// Its problem.
    pub problem: Problem,
    /// Its scalars.
    pub scalars: Vec<u8>,
}

/// The launches of steps as they go by, each format and number of sequences once.
#[derive(Clone, Default, Debug)]
pub(super) struct LargestWeights {
    /// Nothing once it was asked about.
    largest: BTreeMap<(u32, u64), Option<Largest>>,
}

impl LargestWeights {
    /// Takes note of a launch; answers what is to be asked now, which is at the end of a step.
    pub(super) fn pass(
        &mut self,
        index: usize,
        row: &Row,
        problem: &Problem,
        scalars: &[u8],
    ) -> Vec<Largest> {
        if let Some(asked) = Asked::of(row, problem) {
            let columns = || Largest { asked, row: index, problem: *problem, scalars: scalars.to_vec() };
            let known =
                self.largest.entry((asked.format.0, asked.columns)).or_insert_with(|| Some(columns()));
            if known.as_ref().is_some_and(|known| known.asked.size() < asked.size()) {
                *known = Some(columns());
            }
        }
        if row.steps.iter().all(|step| step.op != Op::Advance.id()) {
            return Vec::new();
        }
        self.largest.values_mut().filter_map(Option::take).collect()
    }
}

/// Asks about launches in the place where a step has them.
pub(super) struct Columns<'a> {
    pub(super) tuning: &'a Tuning,
    pub(super) device: &'a Device,
    /// Whether the device can run a row at a problem.
    pub(super) admits: &'a dyn Fn(&Row, &Problem, &[u8]) -> bool,
    pub(super) probe: &'a mut RowProbe,
    /// What is settled; rows that answer wrong are put there at once.
    pub(super) answers: &'a mut Answers,
    /// Where the answers go.
    pub(super) found: &'a mut Answers,
}

impl Columns<'_> {
    /// Settles whether one launch pays.
    ///
    /// # Errors
    /// When the device is lost.
    pub(super) fn ask(&mut self, largest: &Largest, site: &mut dyn Site) -> Result<(), TuneError> {
        let Largest { asked, row, problem, scalars } = largest;
        let Columns { tuning, device, admits, probe, answers, found } = self;
        let rows = device.backend().rows();
        settled(rows, asked, *admits, answers, found, &mut |pair, answers| {
            let mut trial = [answers.clone(), answers.clone()];
            trial[1].put_cols(asked.format, asked.columns, false, Origin::Measured);
            let mut there = || {
                let forms = site.forms(*row, problem, scalars, &trial)?;
                let forms = forms.and_then(|forms| <[Segments; 2]>::try_from(forms).ok());
                Ok(forms.map(|forms| (forms, site.step_bytes())))
            };
            let mut arms = cols::DeviceArms::new(device, probe, *pair, *admits, &mut there);
            cols::settle(tuning, &mut arms, pair)
        })
    }
}

/// Settles one pair, by what is settled so far.
type Settle<'a> = dyn FnMut(&Pair, &Answers) -> Result<Option<Found>, TuneError> + 'a;

/// Settles pairs until one over several sequences answers right. A row that does not is out for good, and said
/// to be; once none is left for the format, each sequence has a launch of its own.
fn settled(
    rows: &[Row],
    asked: &Asked,
    admits: &dyn Fn(&Row, &Problem, &[u8]) -> bool,
    answers: &mut Answers,
    found: &mut Answers,
    settle: &mut Settle<'_>,
) -> Result<(), TuneError> {
    let next = |answers: &Answers| {
        let alone = |row: &Row, problem: &Problem| {
            let right = !answers.is_wrong(row.name.as_str());
            right && plain_scalars(row).is_ok_and(|scalars| admits(row, problem, &scalars))
        };
        cols::pair(rows, asked, &alone)
    };
    let mut pair = next(answers);
    while let Some(asked_now) = pair {
        match settle(&asked_now, answers)? {
            None => return Ok(()),
            Some(Found::Pays { pays, origin }) => {
                found.put_cols(asked.format, asked.columns, pays, origin);
                return Ok(());
            }
            Some(Found::Wrong(difference)) => {
                let name = rows.get(asked_now.cols).map_or("", |row| row.name.as_str());
                answers.put_wrong(name);
                pair = next(answers);
                if pair.is_none() {
                    answers.put_each_only(asked.format);
                }
                tracing::warn!(
                    target: "cajeta::tune",
                    "row `{name}` serves nothing: over {} sequences it differs from the host's mat-vec: \
                     {difference}; a defect record keeps it out of every load (`Keeping a kernel out` in \
                     docs/plugins.md)",
                    asked.columns
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_abi::{FormatId, Regime};

    use crate::tune::choice_tests::{row, steps};

    #[test]
    fn the_largest_weight_of_a_format_is_asked_about_once_and_at_the_end() {
        let product = row("q4kCols", "", Regime::DECODE_COLS, 0);
        let end = steps(row("advance", "", Regime::FUSED_TAIL, 0), &[Op::Advance]);
        let mut passing = LargestWeights::default();
        let problem = |m, n| Problem { m, n, k: 256, batch: 0, aux: 0 };
        for (m, n) in [(4, 64), (4, 512), (4, 128), (1, 4096), (2, 32)] {
            assert!(passing.pass(7, &product, &problem(m, n), &[]).is_empty());
        }
        let asked = passing.pass(8, &end, &problem(4, 0), &[]);
        let found: Vec<(u64, u64)> = asked.iter().map(|found| (found.asked.columns, found.asked.n)).collect();
        assert_eq!(found, [(2, 32), (4, 512)]);
        assert_eq!((asked[0].row, asked[0].asked.format), (7, FormatId(12)));
        passing.pass(7, &product, &problem(4, 1024), &[]);
        assert!(passing.pass(8, &end, &problem(4, 0), &[]).is_empty(), "it was asked");
    }

    /// What is settled of rows of which some answer wrong, and the rows that were asked about.
    fn asked(wrong: &[&str]) -> (Answers, Answers, Vec<String>) {
        let rows = [
            row("q4kColsBest", "", Regime::DECODE_COLS, 9),
            row("q4kCols", "", Regime::DECODE_COLS, 1),
            row("q4kOne", "", Regime::DECODE_ROW, 1),
        ];
        let (mut answers, mut found, mut names) = Default::default();
        let asked = Asked { format: FormatId(12), columns: 4, n: 64, k: 256, layout: None };
        settled(&rows, &asked, &|_, _, _| true, &mut answers, &mut found, &mut |pair, _| {
            let name = rows[pair.cols].name.to_string();
            let pays = Found::Pays { pays: true, origin: Origin::Measured };
            let found = if wrong.contains(&name.as_str()) { Found::Wrong("output 3".into()) } else { pays };
            Vec::push(&mut names, name);
            Ok(Some(found))
        })
        .expect("not lost");
        (answers, found, names)
    }

    #[test]
    fn a_row_that_answers_wrong_is_out_and_the_next_is_asked_about() {
        let (answers, found, names) = asked(&["q4kColsBest"]);
        assert_eq!(names, ["q4kColsBest", "q4kCols"]);
        assert!(answers.is_wrong("q4kColsBest") && !answers.is_wrong("q4kCols"));
        assert_eq!(answers.launch_each(FormatId(12), 4), None);
        assert!(found.cols_question(FormatId(12), 4).is_some());
    }

    #[test]
    fn each_sequence_has_a_launch_once_no_row_over_several_is_left() {
        let (answers, found, names) = asked(&["q4kColsBest", "q4kCols"]);
        assert!(names.len() == 2 && found.is_empty());
        for columns in [2, 4, 64] {
            assert_eq!(answers.launch_each(FormatId(12), columns), Some(Origin::Measured), "{columns}");
        }
    }
}
