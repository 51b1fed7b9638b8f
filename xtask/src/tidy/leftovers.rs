//! Rule: nothing is left unfinished: no notes to self, no empty bodies, no tests set aside.

use super::Finding;
use super::tree::{SourceFile, Tree};

/// Words that mark unfinished work, written in two halves so that this file does not hold them.
const WORDS: [(&str, &str); 3] = [("TO", "DO"), ("FIX", "ME"), ("XX", "X")];

/// Code that stands in for an implementation or sets a test aside.
const CODE: [(&str, &str); 3] = [("todo", "!("), ("unimplemented", "!("), ("#[", "ignore")];

/// Lines with a mark of unfinished work.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.files.iter().flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let code = if file.is_rust() { file.code() } else { String::new() };
    let mut code_lines = code.lines();
    for (index, line) in file.text.lines().enumerate() {
        let code_line = code_lines.next().unwrap_or_default();
        let word = WORDS.iter().map(|(a, b)| format!("{a}{b}")).find(|word| has_word(line, word));
        let call = CODE.iter().map(|(a, b)| format!("{a}{b}")).find(|call| code_line.contains(call.as_str()));
        if let Some(mark) = word.or(call) {
            findings.push(Finding::new(
                &file.path,
                index + 1,
                format!("`{mark}`: finish it, or take it out"),
            ));
        }
    }
    findings
}

fn has_word(line: &str, word: &str) -> bool {
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(in_word) && !line[at + word.len()..].starts_with(in_word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)])).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn notes_to_self_are_found_in_code_and_documents() {
        let note = format!("// {}{}: later\n", "TO", "DO");
        assert_eq!(lines("a.rs", &note), [1]);
        assert_eq!(lines("a.md", &format!("fine\n{}{} this\n", "FIX", "ME")), [2]);
    }

    #[test]
    fn stand_ins_and_tests_set_aside_are_found_in_code_only() {
        let body = format!("fn f() {{ {}{}) }}\n", "unimplemented", "!(");
        assert_eq!(lines("a.rs", &body), [1]);
        assert_eq!(lines("a.rs", &format!("{}{} = \"slow\"]\nfn f() {{}}\n", "#[", "ignore")), [1]);
        assert!(lines("a.rs", &format!("// {}\n", body.trim())).is_empty());
    }

    #[test]
    fn longer_words_are_free() {
        assert!(lines("a.rs", &format!("let {}{}S_LEFT = 1;\n", "TO", "DO")).is_empty());
    }
}
