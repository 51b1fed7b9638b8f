//! Rule: the host names no vendor outside the fixed order of selection.

use super::Finding;
use super::tree::Tree;

/// Names of vendors and of their interfaces, in lower case.
const NAMES: [&str; 8] = ["cuda", "hip", "vulkan", "nvidia", "amd", "rocm", "metal", "radeon"];

/// Where the fixed order lives: a path prefix.
const SELECTION: &str = "host/plugin/src/select";

/// Files under `host/` that may name a vendor, each with its reason.
const EXCEPTIONS: [(&str, &str); 1] =
    [("host/tests/cli/selection.rs", "asks for a backend of the fixed order that is not installed")];

/// Lines of the host, prose included, that name a vendor.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, &EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut used: Vec<&str> = Vec::new();
    let host = tree.files.iter().filter(|file| file.path.starts_with("host/"));
    for file in host.filter(|file| !file.path.starts_with(SELECTION)) {
        let excepted = exceptions.iter().find(|(path, _)| *path == file.path);
        for (index, line) in file.text.lines().enumerate() {
            let Some(name) = words(line).into_iter().find(|word| NAMES.contains(&word.as_str())) else {
                continue;
            };
            match excepted {
                Some((path, _)) => used.push(path),
                None => findings.push(Finding::new(
                    &file.path,
                    index + 1,
                    format!("names `{name}`; ask the plugin by capability instead"),
                )),
            }
        }
    }
    for (path, _) in exceptions.iter().filter(|(path, _)| !used.contains(path)) {
        findings.push(Finding::new(path, 0, "names no vendor any more; remove the exception"));
    }
    findings
}

/// The words of a line in lower case, with `snake_case` and `CamelCase` taken apart:
/// `hip_queue` and `HipQueue` hold `hip`, `relationship` does not.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for character in line.chars() {
        let new_word = !character.is_alphabetic() || (character.is_uppercase() && before.is_lowercase());
        if new_word {
            words.push(String::new());
        }
        if character.is_alphabetic() {
            words.last_mut().into_iter().for_each(|word| word.extend(character.to_lowercase()));
        }
        before = character;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check_with(&Tree::of(&[(path, text)]), &[]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_vendor_is_found_in_code_prose_and_any_case() {
        let text =
            "let cuda_stream = 1;\nstruct HipQueue;\n// on AMD devices\nlet a = \"libvulkan\";\nVULKAN_SDK\n";
        assert_eq!(lines("host/src/engine/a.rs", text), [1, 2, 3, 5]);
    }

    #[test]
    fn ordinary_words_and_other_places_are_free() {
        assert!(lines("host/src/a.rs", "relationship, chipset, damdam, membership\n").is_empty());
        assert!(lines("host/plugin/src/select.rs", "const ORDER: [&str; 1] = [\"cuda\"];\n").is_empty());
        assert!(lines("plugins/cuda/src/lib.rs", "//! The CUDA backend.\n").is_empty());
    }

    #[test]
    fn an_exception_excuses_and_a_stale_one_is_found() {
        let tree = Tree::of(&[("host/tests/a.rs", "cuda\n")]);
        assert!(check_with(&tree, &[("host/tests/a.rs", "names an absent backend")]).is_empty());
        let found = check_with(&tree, &[("host/tests/a.rs", "why"), ("host/b.rs", "gone")]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].path, "host/b.rs");
    }
}
