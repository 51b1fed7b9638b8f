//! What was settled for a model on a device, as routing asks for it.

use std::collections::{BTreeMap, BTreeSet};

use cajeta_abi::{Problem, Regime, Row};

use super::probes::once;
use crate::record::Answered;
use crate::route::rows::{RowCall, RowQuery, RowRoute};
use crate::route::{Origin, Preference, Preferred, Route, RouteCall, RouteQuery};

/// The gate that a fusion which lost against its parts is refused by.
const SLOWER: &str = "measured slower than its parts";
/// The gate of rows on matrix cores that do not pay.
const NO_MATRIX: &str = once::MATRIX_CORES_PAY;

/// A question about a family, or a row, but for its rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    regime: Regime,
    format: u32,
    n: u64,
    k: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Member {
    row: String,
    origin: Origin,
}

/// Settled answers. Rows that were not settled take the nearest number that was: a last chunk is shorter
/// than the others and runs on what they run on.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Answers {
    /// By family. Asking allocates nothing, so the place is no part of one key with it.
    members: BTreeMap<String, BTreeMap<Place, BTreeMap<u64, Member>>>,
    /// Whether a fusion pays, by row.
    fusions: BTreeMap<String, BTreeMap<Place, BTreeMap<u64, bool>>>,
    /// The step whose problem launches of a family, or of a row, carry.
    steps: BTreeMap<String, usize>,
    /// Whether one launch over several sequences pays, by format and their number.
    cols: BTreeMap<(u32, u64), bool>,
    /// Rows that run on matrix cores, where those do not pay.
    no_matrix: BTreeSet<String>,
}

impl Answers {
    /// The member of a route's family that serves a problem.
    pub fn put_member(&mut self, route: &RowRoute<'_>, problem: &Problem, row: &str, answered: Answered) {
        let origin = match answered {
            Answered::Stored => Origin::Stored,
            Answered::Measured => Origin::Measured,
            Answered::Overridden => Origin::Overridden,
            // Declared order says the same.
            Answered::Outright | Answered::Held => return,
        };
        let place = self.place(route.family(), route, problem);
        let member = Member { row: row.to_owned(), origin };
        let family = self.members.entry(route.family().to_owned()).or_default();
        family.entry(place).or_default().insert(problem.m, member);
    }

    /// Whether a fusion pays at a problem.
    pub fn put_fusion(&mut self, route: &RowRoute<'_>, problem: &Problem, pays: bool) {
        let place = self.place(route.name(), route, problem);
        let fusion = self.fusions.entry(route.name().to_owned()).or_default();
        fusion.entry(place).or_default().insert(problem.m, pays);
    }

    /// Whether matrix cores pay at all; where they do not, rows on them are held back.
    pub fn put_matrix_cores(&mut self, rows: &[Row], pays: bool) {
        let on_them = rows.iter().filter(|row| !pays && once::is_matrix(row));
        self.no_matrix = on_them.map(|row| row.name.to_string()).collect();
    }

    /// Whether one launch over `columns` sequences pays for a format.
    pub fn put_cols(&mut self, format: cajeta_abi::FormatId, columns: u64, pays: bool) {
        self.cols.insert((format.0, columns), pays);
    }

    /// Whether one launch over `columns` sequences beats as many of one row: as settled for the nearest
    /// number; nothing where it was not settled for the format at all.
    pub fn cols_pay(&self, format: cajeta_abi::FormatId, columns: u64) -> Option<bool> {
        let settled = self.cols.range((format.0, 0)..=(format.0, u64::MAX));
        settled.min_by_key(|((_, known), _)| distance(*known, columns)).map(|(_, pays)| *pays)
    }

    /// How many questions are settled.
    pub fn len(&self) -> usize {
        let shapes = self.members.values().flat_map(BTreeMap::values).map(BTreeMap::len).sum::<usize>();
        let fusions = self.fusions.values().flat_map(BTreeMap::values).map(BTreeMap::len).sum::<usize>();
        shapes + fusions + self.cols.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn place(&mut self, of: &str, route: &RowRoute<'_>, problem: &Problem) -> Place {
        self.steps.insert(of.to_owned(), route.row().problem_step as usize);
        let Problem { n, k, .. } = *problem;
        Place { regime: route.regime(), format: route.format().0, n, k }
    }

    /// The place a call asks about, and its rows.
    fn asked(&self, of: &str, query: &RowQuery<'_>) -> Option<(Place, u64)> {
        let problem = query.steps().get(*self.steps.get(of)?)?.problem;
        let (regime, format) = (query.regime(), query.format().0);
        Some((Place { regime, format, n: problem.n, k: problem.k }, problem.m))
    }
}

impl Preference<RowCall<'_>> for Answers {
    fn prefer<'s>(&'s self, family: &str, call: &RowCall<'_>) -> Option<Preferred<'s>> {
        let (place, m) = self.asked(family, call.query())?;
        let member = nearest(self.members.get(family)?.get(&place)?, m)?;
        Some(Preferred { row: &member.row, origin: member.origin })
    }

    fn held_back<'s>(&'s self, row: &str, call: &RowCall<'_>) -> Option<&'s str> {
        if self.no_matrix.contains(row) {
            return Some(NO_MATRIX);
        }
        let (place, m) = self.asked(row, call.query())?;
        let pays = nearest(self.fusions.get(row)?.get(&place)?, m)?;
        (!pays).then_some(SLOWER)
    }
}

/// The value of the nearest number, by ratio.
fn nearest<T>(settled: &BTreeMap<u64, T>, m: u64) -> Option<&T> {
    settled.iter().min_by_key(|(known, _)| distance(**known, m)).map(|(_, value)| value)
}

/// How far apart two numbers are, in thousandths of their ratio.
fn distance(a: u64, b: u64) -> u64 {
    let (low, high) = (a.min(b).max(1), a.max(b).max(1));
    high.saturating_mul(1000) / low
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_abi::FormatId;

    #[test]
    fn the_nearest_settled_number_answers() {
        let settled = BTreeMap::from([(1, "one"), (64, "some"), (512, "many")]);
        for (m, expected) in [(1, "one"), (2, "one"), (100, "some"), (300, "many"), (4096, "many")] {
            assert_eq!(nearest(&settled, m), Some(&expected), "{m}");
        }
        assert_eq!(nearest(&BTreeMap::<u64, ()>::new(), 1), None);
    }

    #[test]
    fn columns_are_answered_by_format() {
        let mut answers = Answers::default();
        let (q4k, q6k) = (FormatId(12), FormatId(14));
        assert_eq!(answers.cols_pay(q4k, 4), None);
        answers.put_cols(q4k, 2, false);
        answers.put_cols(q4k, 8, true);
        assert_eq!((answers.cols_pay(q4k, 2), answers.cols_pay(q4k, 16)), (Some(false), Some(true)));
        assert_eq!((answers.cols_pay(q6k, 2), answers.len()), (None, 2));
    }
}
