//! Rule: inside `host/src`, a module imports earlier stages only.

use super::Finding;
use super::tree::Tree;

/// The stages of the host in the order in which work passes through them.
const STAGES: [&str; 13] = [
    "settings", "fault", "device", "record", "route", "filter", "tune", "lower", "kv", "engine", "serve",
    "profile", "cli",
];

const ROOT: &str = "host/src/";

/// Imports of later stages, and modules that have no place in the order.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let Some(inner) = file.path.strip_prefix(ROOT) else { continue };
        // The crate roots declare the stages; they come before and after all of them.
        if ["lib.rs", "main.rs"].contains(&inner) {
            continue;
        }
        let stage = inner.split(['/', '.']).next().unwrap_or_default();
        let Some(place) = place_of(stage) else {
            let message =
                format!("module `{stage}` has no place in the order of stages; add it to tidy's table");
            findings.push(Finding::new(&file.path, 0, message));
            continue;
        };
        for (index, line) in
            super::code::blank_prose(file.without_tests()).split_inclusive(';').scan(0, numbered)
        {
            for name in names_after_crate(line) {
                if place_of(name).is_some_and(|other| other > place) {
                    let message = format!("`{stage}` comes before `{name}` and may not import it");
                    findings.push(Finding::new(&file.path, index, message));
                }
            }
        }
    }
    findings
}

/// Pairs a statement with the line on which it ends.
fn numbered<'a>(lines_before: &mut usize, statement: &'a str) -> Option<(usize, &'a str)> {
    *lines_before += statement.matches('\n').count();
    Some((*lines_before + 1, statement))
}

fn place_of(stage: &str) -> Option<usize> {
    STAGES.iter().position(|known| *known == stage)
}

/// First segments after `crate::` (or `cajeta::`), also inside `crate::{…}`.
fn names_after_crate(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for root in ["crate::", "cajeta::"] {
        for (at, _) in code.match_indices(root) {
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = &code[at + root.len()..];
            match rest.strip_prefix('{') {
                Some(group) => names.extend(first_words_of_group(group)),
                None => names.push(first_word(rest)),
            }
        }
    }
    names
}

fn first_words_of_group(group: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' => {
                words.push(first_word(group[start..at].trim_start()));
                break;
            }
            ',' if depth == 0 => {
                words.push(first_word(group[start..at].trim_start()));
                start = at + 1;
            }
            _ => {}
        }
    }
    words
}

fn first_word(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<(usize, String)> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| (finding.line, finding.message)).collect()
    }

    #[test]
    fn importing_a_later_stage_is_found_with_its_line() {
        let found = messages(
            "host/src/route/pick.rs",
            "//! A.\nuse crate::device::Queue;\nuse crate::engine::Step;\n",
        );
        assert_eq!(found, [(3, "`route` comes before `engine` and may not import it".to_owned())]);
    }

    #[test]
    fn groups_and_paths_in_expressions_are_seen() {
        let grouped = "use crate::{\n    device::{Queue, List},\n    lower::Cover,\n};\n";
        assert_eq!(messages("host/src/record/mod.rs", grouped).len(), 1);
        assert_eq!(messages("host/src/record.rs", "fn f() { crate::cli::say() }\n").len(), 1);
    }

    #[test]
    fn earlier_stages_prose_and_tests_are_free() {
        let text = "//! See crate::cli.\nuse crate::device::Queue;\n#[cfg(test)]\nmod tests {\n    use crate::cli;\n}\n";
        assert!(messages("host/src/engine/step.rs", text).is_empty());
        assert!(messages("host/src/lib.rs", "pub mod cli;\nuse crate::cli;\n").is_empty());
        assert!(messages("model-arch/src/plan.rs", "use crate::cli;\n").is_empty());
    }

    #[test]
    fn a_module_without_a_place_is_found() {
        let found = messages("host/src/misplaced.rs", "//! A.\n");
        assert!(found[0].1.contains("`misplaced` has no place"), "{found:?}");
    }
}
