//! Rule: the first line of every Rust file is `//!` and says what this room is for.

use super::Finding;
use super::tree::Tree;

/// Files whose first line is not a sentence in `//!`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .filter(|file| {
            let first = file.text.lines().next().unwrap_or_default();
            first.strip_prefix("//! ").is_none_or(|sentence| sentence.trim().is_empty())
        })
        .map(|file| Finding::new(&file.path, 1, "start with `//!` and say what this file is for"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_its_sentence_is_found() {
        let tree = Tree::of(&[
            ("a.rs", "//! Reads things.\n"),
            ("b.rs", "use std::fmt;\n"),
            ("c.rs", "//!\n"),
            ("d.rs", ""),
            ("e.md", "# Not Rust\n"),
        ]);
        let found: Vec<String> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["b.rs", "c.rs", "d.rs"]);
    }
}
