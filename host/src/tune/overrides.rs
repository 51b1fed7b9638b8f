//! Choices that somebody fixes: the row of a family, or the answer of one question by its name.

use std::collections::{BTreeMap, BTreeSet};

use cajeta_abi::Row;
use cajeta_plugin_host::search;
use thiserror::Error;

use super::key;

/// The variable that fixes choices: `FAMILY=ROW` and others, comma-separated.
pub const VARIABLE: &str = "CAJETA_LLM_SHAPE_OVERRIDE";
/// What stands for the rows that a fusion takes the place of.
pub const PARTS: &str = "parts";
/// Characters of what was written that an error repeats.
const SHOWN_MAX: usize = 200;
/// Names that an error offers for one that does not exist.
const NEAR: usize = 3;

/// An override that cannot be meant.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OverrideError {
    /// It is not of the form.
    #[error("`{text}` fixes no choice; write FAMILY=ROW, or the name of a question and its answer")]
    Form {
        /// What it says.
        text: String,
    },
    /// It is about nothing there is.
    #[error(
        "cannot prefer a row for `{scope}`: the backend has no such family, and no question is named so; \
         near it: {near} (`cajeta kernels` lists families)"
    )]
    Scope {
        /// What it is about.
        scope: String,
        /// Names like it.
        near: String,
    },
    /// It is about a row, and choices are made among the rows of a family.
    #[error("cannot prefer a row for `{scope}`: that is a row of the family {family}; write `{asked}={arm}`")]
    Member {
        /// What it is about.
        scope: String,
        /// The label of that row's family.
        family: String,
        /// What to write in its place.
        asked: String,
        /// What it asks for.
        arm: String,
    },
    /// It asks for a row that cannot answer.
    #[error("cannot prefer `{arm}` for `{scope}`: {why}")]
    Arm {
        /// What it is about.
        scope: String,
        /// What it asks for.
        arm: String,
        /// Why not, with what there is.
        why: String,
    },
}

/// Somebody's words, as far as an error repeats them.
fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// What an override is about and what it says: `FAMILY=ROW`.
///
/// # Errors
/// When one of them is missing.
pub fn parse(text: &str) -> Result<(String, String), OverrideError> {
    let parts = text.split_once('=').map(|(scope, arm)| (scope.trim(), arm.trim()));
    match parts.filter(|(scope, arm)| !scope.is_empty() && !arm.is_empty()) {
        Some((scope, arm)) => Ok((scope.to_owned(), arm.to_owned())),
        None => Err(OverrideError::Form { text: shown(text) }),
    }
}

/// The overrides of the environment. A process with more rights than its caller has none.
///
/// # Errors
/// When one of them is not of the form.
pub fn of_process() -> Result<Vec<(String, String)>, OverrideError> {
    if search::is_elevated() {
        return Ok(Vec::new());
    }
    let variable = std::env::var_os(VARIABLE).unwrap_or_default();
    let variable = variable.to_string_lossy();
    variable.split(',').map(str::trim).filter(|text| !text.is_empty()).map(parse).collect()
}

/// Whether an override could ever answer: what it is about exists, and so does what it asks for.
///
/// # Errors
/// When it could not, with names like the one that is not there.
pub fn check(scope: &str, arm: &str, rows: &[Row]) -> Result<(), OverrideError> {
    let fail = |why: String| {
        let (scope, arm) = (shown(scope), shown(arm));
        Err(OverrideError::Arm { scope, arm, why })
    };
    if let Some(arms) = key::arms(scope) {
        return if arms.contains(&arm) {
            Ok(())
        } else {
            fail(format!("the answer is {}", arms.join(" or ")))
        };
    }
    let (family, kind) = match question(scope) {
        Some((Asked::Parts, _)) => {
            return if arm.parse::<u32>().is_ok_and(|parts| parts > 0) {
                Ok(())
            } else {
                fail("the answer is a number of parts".to_owned())
            };
        }
        Some((kind, family)) => (family, kind),
        None => (Some(scope), Asked::Family),
    };
    // A fusion is asked about by its own name, rows that compete by their family's.
    let by_name = kind == Asked::Fusion;
    let label = |row: &Row| if by_name { row.name.to_string() } else { key::family_label(row) };
    let members = |family: &str| rows.iter().filter(|row| label(row) == family).collect::<Vec<&Row>>();
    if let Some(family) = family
        && members(family).is_empty()
    {
        if let Some(row) = rows.iter().find(|row| row.name.as_str() == family) {
            let (scope, label, arm) = (shown(scope), key::family_label(row), shown(arm));
            let asked = scope.replace(family, &label);
            return Err(OverrideError::Member { scope, family: label, asked, arm });
        }
        let labels: BTreeSet<String> = rows.iter().map(label).collect();
        let near = near(family, labels.iter().map(String::as_str));
        return Err(OverrideError::Scope { scope: shown(scope), near });
    }
    let allowed: Vec<&Row> = match family {
        Some(family) => members(family),
        None => rows.iter().collect(),
    };
    let is_fusion = |row: &Row| row.steps.len() > 1;
    if arm == PARTS {
        return if kind == Asked::Fusion || allowed.iter().any(|row| is_fusion(row)) && kind == Asked::Family {
            Ok(())
        } else {
            fail("only a fusion has parts to run in its place".to_owned())
        };
    }
    let is_row = |name: &str| rows.iter().any(|row| row.name.as_str() == name);
    if kind == Asked::Fusion && arm.contains('+') && arm.split('+').all(is_row) {
        return Ok(());
    }
    let names = || allowed.iter().map(|row| row.name.as_str());
    if names().any(|name| name == arm) {
        return Ok(());
    }
    match rows.iter().find(|row| row.name.as_str() == arm) {
        Some(row) => fail(format!(
            "that row is of the family {}; those of this one are {}",
            key::family_label(row),
            names().collect::<Vec<_>>().join(", ")
        )),
        None => fail(format!("there is no such row; near it: {}", near(arm, names()))),
    }
}

/// What an override is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Family,
    Rows,
    Fusion,
    Parts,
}

/// The kind of question a name is of, and the family in it; nothing when no question is named so.
fn question(name: &str) -> Option<(Asked, Option<&str>)> {
    if name == key::PART_WGS {
        return Some((Asked::Parts, None));
    }
    for (prefix, kind) in [("shape.", Asked::Rows), ("fused.", Asked::Fusion)] {
        if let Some(rest) = name.strip_prefix(prefix) {
            let (mut family, mut shape) = rest.rsplit_once('.')?;
            // Behind the shape of an attention are its heads.
            if ["kv#x#", "kv#x#w#"].contains(&digits(shape).as_str()) && kind == Asked::Rows {
                (family, shape) = family.rsplit_once('.')?;
            }
            return (digits(shape) == "#x#x#").then_some((kind, Some(family)));
        }
    }
    let form = |rest: &str| digits(rest.split_once('-').map_or("", |(_, shape)| shape));
    if let Some(rest) = name.strip_prefix("colsSeg-") {
        let (segment, formats) = rest.split_once('.')?;
        return (form(segment) == "#x#-b#" && !formats.is_empty()).then_some((Asked::Fusion, None));
    }
    if let Some(rest) = name.strip_prefix("colsPays-") {
        return (form(rest) == "b#").then_some((Asked::Rows, None));
    }
    let rest = name.strip_prefix("mvVariant-")?;
    (form(rest) == "#x#-c#").then_some((Asked::Rows, None))
}

/// A text with `#` for every number.
fn digits(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            c => out.push(c),
        }
    }
    out
}

/// The names most like one that does not exist.
fn near<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let name = shown(name);
    let mut known: Vec<(usize, &str)> = known.map(|known| (edits(&name, known), known)).collect();
    known.sort_unstable();
    known.dedup();
    let names: Vec<&str> = known.into_iter().take(NEAR).map(|(_, known)| known).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// Letters to add, drop or change until one text is the other, whatever their case.
fn edits(a: &str, b: &str) -> usize {
    let lower = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<Vec<char>>();
    let (a, b) = (lower(a), lower(b));
    let mut costs: Vec<usize> = (0..=b.len()).collect();
    for (row, &from) in a.iter().enumerate() {
        let mut diagonal = row;
        let mut left = row + 1;
        if let Some(first) = costs.first_mut() {
            *first = left;
        }
        for (cost, &to) in costs.iter_mut().skip(1).zip(&b) {
            let here = (diagonal + usize::from(from != to)).min(left + 1).min(*cost + 1);
            diagonal = std::mem::replace(cost, here);
            left = here;
        }
    }
    costs.last().copied().unwrap_or(a.len())
}

/// The overrides of one device, and which of them ever answered.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Overrides(BTreeMap<String, (String, bool)>);

impl Overrides {
    /// Fixes an answer, or frees it.
    pub(super) fn set(&mut self, scope: &str, arm: Option<&str>) {
        match arm {
            Some(arm) => self.0.insert(scope.to_owned(), (arm.to_owned(), false)),
            None => self.0.remove(scope),
        };
    }

    /// The index among `arms` that the first of `scopes` with an answer fixes.
    pub(super) fn answer(&mut self, scopes: [&str; 2], arms: &[&str]) -> Option<usize> {
        scopes.into_iter().find_map(|scope| {
            let (fixed, used) = self.0.get_mut(scope)?;
            let exact = arms.iter().position(|arm| arm == fixed);
            // The parts of a fusion are an arm of several rows.
            let parts = || arms.iter().position(|arm| fixed == PARTS && arm.contains('+'));
            let arm = exact.or_else(parts)?;
            *used = true;
            Some(arm)
        })
    }

    /// Every row that was chosen over the others of its family.
    pub(super) fn chosen(&self, rows: &[Row]) -> Vec<usize> {
        let is_chosen = |row: &Row| {
            let chosen = self.0.get(&key::family_label(row)).map(|(chosen, _)| chosen.as_str());
            chosen == Some(row.name.as_str())
        };
        (0..rows.len()).filter(|&index| is_chosen(&rows[index])).collect()
    }

    /// Every row of a family with an override that is not the one chosen.
    pub(super) fn passed_over(&self, rows: &[Row]) -> BTreeSet<String> {
        let is_passed = |row: &&Row| {
            let chosen = self.0.get(&key::family_label(row)).map(|(chosen, _)| chosen.as_str());
            chosen.is_some_and(|chosen| chosen != PARTS && chosen != row.name.as_str())
        };
        rows.iter().filter(is_passed).map(|row| row.name.to_string()).collect()
    }

    /// Those that answered nothing, as they were written.
    pub(super) fn unused(&self) -> Vec<String> {
        let unused = self.0.iter().filter(|(_, (_, used))| !used);
        unused.map(|(scope, (arm, _))| format!("{scope}={arm}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::choice_tests::{row, steps};
    use cajeta_abi::Regime;
    use cajeta_catalog::op::Op;

    fn registry() -> Vec<Row> {
        let batch = Regime::PREFILL_BATCH;
        vec![
            row("q4kTile128", "tcTile", batch, 3),
            row("q4kTile64", "tcTile", batch, 2),
            row("q4kPlain", "", batch, 1),
            steps(row("q4kGateUp", "", batch, 4), &[Op::Matmul, Op::Matmul, Op::Glu]),
            steps(row("q4kQkvWide", "Qkv", batch, 4), &[Op::Matmul, Op::Matmul, Op::Matmul]),
        ]
    }

    #[test]
    fn an_override_is_a_name_and_an_answer() {
        assert_eq!(parse(" a = b=c "), Ok(("a".to_owned(), "b=c".to_owned())));
        for bad in ["", "a", "=b", "a=", " = "] {
            assert_eq!(parse(bad), Err(OverrideError::Form { text: bad.to_owned() }));
        }
    }

    #[test]
    fn families_and_questions_take_rows_that_can_answer_them() {
        let rows = registry();
        let family = key::family_label(&rows[0]);
        let shape = format!("shape.{family}.512x4096x4096");
        let heads = format!("shape.{family}.1x4096x4096.kv8x128");
        let window = format!("shape.{family}.1x4096x4096.kv8x128w512");
        for (scope, arm) in [
            (family.as_str(), "q4kTile64"),
            (&shape, "q4kTile128"),
            (&heads, "q4kTile128"),
            (&window, "q4kTile128"),
            ("q4kQkv", PARTS),
            ("fused.q4kQkvWide.1x2x3", PARTS),
            ("q4kGateUp", PARTS),
            ("q4kGateUp", "q4kGateUp"),
            ("fused.q4kGateUp.1x2x3", PARTS),
            ("colsSeg-gateup-28672x4096-b4.q4k.q6k", "q4kPlain+q4kPlain"),
            ("colsPays-q4k-b4", "q4kPlain"),
            ("mvVariant-q4k-4096x14336-c1", "q4kTile64"),
            ("matrixCoresPay", "plain"),
            ("tileBeatsDeq", "deq"),
            ("tileBeatsDeq-q4k", "tile"),
            ("partWgs", "8"),
        ] {
            assert_eq!(check(scope, arm, &rows), Ok(()), "{scope}={arm}");
        }
    }

    #[test]
    fn what_does_not_exist_is_named_with_what_is_near() {
        let rows = registry();
        let family = key::family_label(&rows[0]);
        let wrong = |scope: &str, arm: &str| check(scope, arm, &rows).expect_err("wrong").to_string();
        let typo = wrong(&family.replace("Tile", "Tiel"), "q4kTile64");
        assert!(typo.contains("no such family") && typo.contains(&format!("near it: {family}")), "{typo}");
        let typo = wrong(&family, "q4ktile46");
        assert!(typo.contains("no such row; near it: q4kTile64, q4kTile128"), "{typo}");
        let foreign = wrong(&family, "q4kPlain");
        assert!(
            foreign.contains("family q4kPlain") && foreign.contains("q4kTile128, q4kTile64"),
            "{foreign}"
        );
        assert!(wrong(&family, PARTS).contains("only a fusion"));
        assert!(wrong("shape.nothing.1x2x3", "q4kPlain").contains("no such family"));
        assert!(wrong("colsSeg-gateup-4096", PARTS).contains("no question is named so"));
        let member = wrong("q4kQkvWide", PARTS);
        assert!(member.ends_with("is a row of the family q4kQkv; write `q4kQkv=parts`"), "{member}");
        let member = wrong("shape.q4kQkvWide.1x2x3", "q4kQkvWide");
        assert!(member.ends_with("write `shape.q4kQkv.1x2x3=q4kQkvWide`"), "{member}");
        assert!(wrong("fused.q4kQkv.1x2x3", PARTS).contains("near it: q4kQkvWide"));
        assert!(wrong("shape.q4kQkv.1x2x3.kv8", "q4kQkvWide").contains("no question is named so"));
        assert!(wrong("partWgs", "many").contains("number of parts"));
        let long = "x".repeat(100_000);
        for said in [wrong(&long, &long), wrong(&family, &long), parse(&long).expect_err("none").to_string()]
        {
            assert!(said.len() < 1000 && said.contains("xxx…"), "{} bytes", said.len());
        }
        assert!(wrong("tileBeatsDeq", "q4kTile64").contains("the answer is tile or deq"));
    }

    #[test]
    fn an_override_answers_by_name_before_family_and_says_whether_it_did() {
        let mut overrides = Overrides::default();
        overrides.set("f", Some("b"));
        overrides.set("shape.f.1x2x3", Some("c"));
        overrides.set("g", Some(PARTS));
        assert_eq!(overrides.answer(["shape.f.1x2x3", "f"], &["a", "b", "c"]), Some(2));
        assert_eq!(overrides.answer(["shape.f.4x5x6", "f"], &["a", "b", "c"]), Some(1));
        // One that is not among the arms fixes nothing.
        assert_eq!(overrides.answer(["x", "f"], &["a"]), None);
        assert_eq!(overrides.unused(), ["g=parts"]);
        assert_eq!(overrides.answer(["fused.g.1x2x3", "g"], &["whole", "one+two"]), Some(1));
        assert_eq!(overrides.unused(), Vec::<String>::new());
        overrides.set("f", None);
        assert_eq!(overrides.answer(["x", "f"], &["a", "b"]), None);
    }

    #[test]
    fn the_others_of_a_family_are_passed_over() {
        let rows = registry();
        let mut overrides = Overrides::default();
        overrides.set(&key::family_label(&rows[0]), Some("q4kTile64"));
        overrides.set("q4kGateUp", Some(PARTS));
        assert_eq!(overrides.passed_over(&rows), BTreeSet::from(["q4kTile128".to_owned()]));
    }

    #[test]
    fn edits_are_counted() {
        for (a, b, count) in
            [("", "abc", 3), ("tile", "tiel", 2), ("Tile", "tILE", 0), ("kitten", "sitting", 3)]
        {
            assert_eq!((edits(a, b), edits(b, a)), (count, count), "{a} {b}");
        }
    }
}
