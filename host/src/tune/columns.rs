//! Which launch of each format a step of several sequences is asked about: the one over the largest
//! weight. The answer holds for all weights of the format, and that is what most of the time goes to.

use std::collections::BTreeMap;

use cajeta_abi::{Problem, Row};
use cajeta_catalog::op::Op;

use super::probes::cols::Asked;

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
}
