//! Rule: the text names no absolute path of the machine somebody happened to work on.

use super::Finding;
use super::tree::Tree;

/// Folders below which people keep their work; a space stands for the slash in front.
const PLACES: [&str; 4] = [" home/", " Users/", " root/", " work/"];

/// Lines with an absolute path into a person's or a workplace's folder.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let places = PLACES.map(|place| place.replace(' ', "/"));
    let mut findings = Vec::new();
    for file in &tree.files {
        for (index, line) in file.text.lines().enumerate() {
            if let Some(place) = places.iter().find(|place| has_absolute(line, place)) {
                findings.push(Finding::new(
                    &file.path,
                    index + 1,
                    format!("`{place}…` exists on one machine only"),
                ));
            }
        }
    }
    findings
}

/// Whether `place` starts a path here, rather than being a part of a longer one.
fn has_absolute(line: &str, place: &str) -> bool {
    line.match_indices(place)
        .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-~/)}>".contains(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_found_and_relative_ones_are_free() {
        let path = format!("let a = \"{}home/someone/model.gguf\";\n", '/');
        let relative = format!("host{}work/queue.rs and ../{}\n", '/', "work/shared");
        let tree = Tree::of(&[("a.rs", &path), ("b.md", &relative)]);
        let found: Vec<String> = check(&tree).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["a.rs"]);
    }
}
