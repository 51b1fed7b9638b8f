//! What was settled for a model on a device, as routing asks for it.

mod place;
mod widened;

use std::collections::{BTreeMap, BTreeSet};

use cajeta_abi::{Problem, Row};

use place::{NEAR, Place, distance, inputs, nearest, other_of, place};
use widened::Widened;

use super::choice::question_name;
use super::declared::is_matrix;
use super::key;
use super::key::Heads;
use super::question::Found;
use crate::record::Answered;
use crate::route::rows::{RowCall, RowQuery, RowRoute};
use crate::route::{Origin, Preference, Preferred, Route, RouteCall, RouteQuery};

/// The gate that a fusion which lost against its parts is refused by.
const SLOWER: &str = "measured slower than its parts";
/// The gate of a fusion whose parts somebody chose.
const TOLD: &str = "an override runs its parts";
/// The gate of rows that answer wrong.
const WRONG: &str = "differs from the host's mat-vec";
/// The gate of rows on matrix cores that do not pay.
const NO_MATRIX: &str = key::MATRIX_CORES_PAY;
/// The gate of rows over blocks that the widened route beats.
const WIDENED: &str = key::TILE_BEATS_DEQ;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Member {
    row: String,
    origin: Origin,
    /// The name of the question.
    question: String,
}

/// Whether a fusion is to serve.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Fusion {
    pays: bool,
    origin: Origin,
    /// The name of the question; nothing while it is tried.
    question: String,
}

/// The steps of rows that ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Steps {
    /// The one whose problem their launches carry.
    problem: usize,
    /// How many there are.
    covers: usize,
}

impl Steps {
    fn of(route: &RowRoute<'_>) -> Steps {
        Steps { problem: route.row().problem_step as usize, covers: route.covers() }
    }
}

/// Settled answers. Rows that were not settled take the nearest number that was: a last chunk is shorter
/// than the others and runs on what they run on.
#[derive(Clone, Default, Debug)]
pub struct Answers {
    /// By family. Asking allocates nothing, so the place is no part of one key with it.
    members: BTreeMap<String, BTreeMap<Place, BTreeMap<u64, Member>>>,
    /// Whether a fusion pays, by row.
    fusions: BTreeMap<String, BTreeMap<Place, BTreeMap<u64, Fusion>>>,
    /// The steps of a family's rows, or of a row.
    steps: BTreeMap<String, Steps>,
    /// Whether one launch over several sequences pays, by format and their number.
    cols: BTreeMap<(u32, u64), (bool, Origin)>,
    /// In how many times the fewest parts attention is computed.
    parts: Option<u32>,
    /// Rows that run on matrix cores, where those do not pay.
    no_matrix: BTreeSet<String>,
    /// Rows that answer wrong: they serve nowhere.
    wrong: BTreeSet<String>,
    /// Formats for which no row over several sequences is left that answers right.
    each_only: BTreeSet<u32>,
    /// By the row over blocks that steps back where the widened one serves.
    widened: BTreeMap<String, Widened>,
    /// Rows that somebody chose over the others of their families, whether anybody asks about those.
    chosen: Vec<RowRoute<'static>>,
}

impl Answers {
    /// The member of a route's family that serves a problem.
    pub fn put_member(
        &mut self,
        route: &RowRoute<'_>,
        problem: &Problem,
        scalars: &[u8],
        row: &str,
        answered: Answered,
    ) {
        let origin = Origin::of(answered);
        // Declared order says the same, unless the device cannot run its first.
        if origin == Origin::Declared && row == route.name() {
            return;
        }
        self.steps.insert(route.family().to_owned(), Steps::of(route));
        let place = place(route, problem, Heads::of(route.row(), scalars));
        let question = question_name(route.row(), problem, scalars);
        let member = Member { row: row.to_owned(), origin, question };
        let family = self.members.entry(route.family().to_owned()).or_default();
        family.entry(place).or_default().insert(problem.m, member);
    }

    /// The names of the questions that were settled about a row at a problem, as the store has them.
    pub fn questions(&self, route: &RowRoute<'_>, problem: &Problem, scalars: &[u8]) -> Vec<&str> {
        let (m, regime) = (problem.m, route.regime());
        let shaped = place(route, problem, Heads::of(route.row(), scalars));
        let member = self.members.get(route.family());
        let member = member.and_then(|places| nearest(places.get(&shaped)?, m, regime));
        let fusion = self.fusions.get(route.name());
        let fusion = fusion.and_then(|places| nearest(places.get(&place(route, problem, None))?, m, regime));
        let names = [member.map(|member| &member.question), fusion.map(|fusion| &fusion.question)];
        names.into_iter().flatten().map(String::as_str).collect()
    }

    /// That a fusion is tried at a problem, or its parts are.
    pub fn put_fusion(&mut self, route: &RowRoute<'_>, problem: &Problem, pays: bool) {
        self.insert_fusion(
            route,
            problem,
            Fusion { pays, origin: Origin::Declared, question: String::new() },
        );
    }

    /// Whether a fusion pays at a problem.
    pub fn put_found(&mut self, route: &RowRoute<'_>, problem: &Problem, found: &Found) {
        let origin = Origin::of(found.answered);
        self.insert_fusion(
            route,
            problem,
            Fusion { pays: found.pays, origin, question: found.question.clone() },
        );
    }

    fn insert_fusion(&mut self, route: &RowRoute<'_>, problem: &Problem, answer: Fusion) {
        self.steps.insert(route.name().to_owned(), Steps::of(route));
        let place = place(route, problem, None);
        let fusion = self.fusions.entry(route.name().to_owned()).or_default();
        fusion.entry(place).or_default().insert(problem.m, answer);
    }

    /// In how many times the fewest parts attention is computed, where its launch leaves a choice.
    pub fn put_parts(&mut self, times: u32) {
        self.parts = Some(times);
    }

    /// As settled.
    pub fn parts(&self) -> Option<u32> {
        self.parts
    }

    /// Whether matrix cores pay at all; where they do not, rows on them are held back.
    pub fn put_matrix_cores(&mut self, rows: &[Row], pays: bool) {
        let on_them = rows.iter().filter(|row| !pays && is_matrix(row));
        self.no_matrix = on_them.map(|row| row.name.to_string()).collect();
    }

    /// Whether a row runs on matrix cores that do not pay.
    pub fn holds_matrix_back(&self, row: &str) -> bool {
        self.no_matrix.contains(row)
    }

    /// That a row answers wrong: nothing is served by it from here on.
    pub fn put_wrong(&mut self, row: &str) {
        self.wrong.insert(row.to_owned());
    }

    /// Whether a row was found to answer wrong.
    pub fn is_wrong(&self, row: &str) -> bool {
        self.wrong.contains(row)
    }

    /// That no row over several sequences is left for a format: each has a launch of its own, however many
    /// they are.
    pub fn put_each_only(&mut self, format: cajeta_abi::FormatId) {
        self.each_only.insert(format.0);
    }

    /// That `over_blocks` steps back for `widened` wherever that serves, from `least` rows on.
    pub fn put_widened(
        &mut self,
        over_blocks: &str,
        widened: RowRoute<'static>,
        least: u64,
        answered: Answered,
    ) {
        let origin = if answered == Answered::Overridden { Origin::Overridden } else { Origin::Measured };
        self.widened.insert(over_blocks.to_owned(), Widened { route: widened, origin, least });
    }

    /// That somebody chose a row over the others of its family.
    pub fn put_chosen(&mut self, route: RowRoute<'static>) {
        self.chosen.retain(|known| known.name() != route.name());
        self.chosen.push(route);
    }

    /// Adds what others found; where both answer one question, theirs is later.
    pub fn merge(&mut self, later: Answers) {
        for (family, places) in later.members {
            let known = self.members.entry(family).or_default();
            places.into_iter().for_each(|(place, answers)| known.entry(place).or_default().extend(answers));
        }
        for (row, places) in later.fusions {
            let known = self.fusions.entry(row).or_default();
            places.into_iter().for_each(|(place, answers)| known.entry(place).or_default().extend(answers));
        }
        self.parts = later.parts.or(self.parts);
        self.steps.extend(later.steps);
        self.cols.extend(later.cols);
        self.no_matrix.extend(later.no_matrix);
        self.wrong.extend(later.wrong);
        self.each_only.extend(later.each_only);
        self.widened.extend(later.widened);
        later.chosen.into_iter().for_each(|route| self.put_chosen(route));
    }

    /// Whether one launch over `columns` sequences pays for a format.
    pub fn put_cols(&mut self, format: cajeta_abi::FormatId, columns: u64, pays: bool, origin: Origin) {
        self.cols.insert((format.0, columns), (pays, origin));
    }

    /// How it was found that as many launches of one row beat one launch over `columns` sequences; nothing
    /// where it was not.
    pub fn launch_each(&self, format: cajeta_abi::FormatId, columns: u64) -> Option<Origin> {
        if self.each_only.contains(&format.0) {
            return Some(Origin::Measured);
        }
        self.cols(format, columns).and_then(|(_, pays, origin)| (!pays).then_some(origin))
    }

    /// The name of the question whether one launch over `columns` sequences pays for a format, where it
    /// was settled.
    pub fn cols_question(&self, format: cajeta_abi::FormatId, columns: u64) -> Option<String> {
        self.cols(format, columns).map(|(columns, ..)| key::cols_pays(format, columns))
    }

    fn cols(&self, format: cajeta_abi::FormatId, columns: u64) -> Option<(u64, bool, Origin)> {
        let settled = self.cols.range((format.0, 0)..=(format.0, u64::MAX));
        let near = settled.filter(|((_, known), _)| distance(*known, columns) <= NEAR);
        let nearest = near.min_by_key(|((_, known), _)| distance(*known, columns));
        nearest.map(|(&(_, columns), &(pays, origin))| (columns, pays, origin))
    }

    /// How many questions are settled, with those of rows that answer wrong.
    pub fn len(&self) -> usize {
        let shapes = self.members.values().flat_map(BTreeMap::values).map(BTreeMap::len).sum::<usize>();
        let fusions = self.fusions.values().flat_map(BTreeMap::values).map(BTreeMap::len).sum::<usize>();
        shapes
            + fusions
            + self.cols.len()
            + self.wrong.len()
            + self.widened.len()
            + usize::from(self.parts.is_some())
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place a call asks about, and its rows.
    fn asked(&self, of: &str, query: &RowQuery<'_>) -> Option<(Place, u64)> {
        let Steps { problem, covers } = *self.steps.get(of)?;
        let step = query.steps().get(problem)?;
        let other = other_of(query.steps().get(..covers).unwrap_or_default());
        let (problem, k) = (&step.problem, inputs(Some(step.op.id()), &step.problem));
        let (regime, format) = (query.regime(), query.format().0);
        let heads = Heads::of_op(step.op, &step.scalars);
        Some((Place { regime, format, other, n: problem.n, k, heads }, problem.m))
    }

    /// The answer about a fusion that a call asks for.
    fn fusion(&self, row: &str, call: &RowCall<'_>) -> Option<&Fusion> {
        let (place, m) = self.asked(row, call.query())?;
        // A fusion is asked about with its parts, whatever the heads.
        nearest(self.fusions.get(row)?.get(&Place { heads: None, ..place })?, m, place.regime)
    }
}

impl Preference<RowCall<'_>> for Answers {
    fn prefer<'s>(&'s self, family: &str, call: &RowCall<'_>) -> Option<Preferred<'s>> {
        let query = call.query();
        let of_family = |route: &&RowRoute<'_>| {
            route.family() == family
                && route.format() == query.format()
                && route.regime() == query.regime_of(route.covers())
        };
        // The first of them that is admitted: several may be of one family and differ by their steps.
        let chosen = self
            .chosen
            .iter()
            .filter(of_family)
            .find(|route| route.format_refusal(query).is_none() && route.shape_refusal(query).is_none());
        if let Some(chosen) = chosen {
            return Some(Preferred { row: chosen.name(), origin: Origin::Overridden });
        }
        let settled = || {
            let (place, m) = self.asked(family, call.query())?;
            let member = nearest(self.members.get(family)?.get(&place)?, m, place.regime)?;
            Some(Preferred { row: &member.row, origin: member.origin })
        };
        // It is the only one of its design that serves a layout; what this adds is where it comes from.
        let widened = || {
            let of_family = |widened: &&Widened| widened.route.family() == family && widened.serves(call);
            let widened = self.widened.values().find(of_family)?;
            Some(Preferred { row: widened.route.name(), origin: widened.origin })
        };
        settled().or_else(widened)
    }

    fn confirmed(&self, row: &str, call: &RowCall<'_>) -> Option<Origin> {
        let fusion = self.fusion(row, call)?;
        fusion.pays.then_some(fusion.origin)
    }

    fn refused<'s>(&'s self, row: &str, _call: &RowCall<'_>) -> Option<&'s str> {
        self.wrong.contains(row).then_some(WRONG)
    }

    fn held_back<'s>(&'s self, row: &str, call: &RowCall<'_>) -> Option<&'s str> {
        if self.no_matrix.contains(row) {
            return Some(NO_MATRIX);
        }
        if self.widened.get(row).is_some_and(|widened| widened.serves(call)) {
            return Some(WIDENED);
        }
        let fusion = self.fusion(row, call)?;
        (!fusion.pays).then_some(if fusion.origin == Origin::Overridden { TOLD } else { SLOWER })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_abi::FormatId;

    #[test]
    fn columns_are_answered_by_format() {
        let mut answers = Answers::default();
        let (q4k, q6k) = (FormatId(12), FormatId(14));
        assert_eq!(answers.cols_question(q4k, 4), None);
        answers.put_cols(q4k, 2, false, Origin::Stored);
        answers.put_cols(q4k, 8, true, Origin::Measured);
        let each = [2, 3, 8].map(|columns| answers.launch_each(q4k, columns));
        assert_eq!(each, [Some(Origin::Stored), Some(Origin::Stored), None]);
        let asked = [2, 12, 16].map(|columns| answers.cols_question(q4k, columns));
        let settled = ["colsPays-q4k-b2", "colsPays-q4k-b8"].map(|name| Some(name.to_owned()));
        assert_eq!(asked, [settled[0].clone(), settled[1].clone(), None]);
        assert_eq!((answers.cols_question(q6k, 2), answers.len()), (None, 2));
    }

    #[test]
    fn rows_that_answer_wrong_are_remembered_through_a_merge() {
        let (q4k, q6k) = (FormatId(12), FormatId(14));
        let mut found = Answers::default();
        found.put_wrong("q4kCols");
        found.put_cols(q4k, 8, true, Origin::Stored);
        found.put_each_only(q4k);
        let mut answers = Answers::default();
        answers.merge(found);
        assert!(answers.is_wrong("q4kCols") && !answers.is_wrong("q6kCols"));
        let each = [2, 8, 64].map(|columns| answers.launch_each(q4k, columns));
        assert_eq!(each, [Some(Origin::Measured); 3], "whatever was found of a row that is out now");
        assert_eq!((answers.launch_each(q6k, 8), answers.len()), (None, 2));
    }
}
