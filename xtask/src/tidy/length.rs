//! Rule: a file is at most 600 lines, one kernel at most 300, the median file under 200.
//!
//! Blank lines and the trailing tests module do not count.

use super::Finding;
use super::tree::{SourceFile, Tree};

const CAP: usize = 600;
const KERNEL_CAP: usize = 300;
const MEDIAN_CAP: usize = 200;

/// Files that may be longer, each with the reason why splitting them would be worse.
const EXCEPTIONS: [(&str, &str); 0] = [];

/// Files over their cap, exceptions that are no longer needed, and a median out of bounds.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, &EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let (lines, cap) = (counted_lines(file), cap_of(&file.path));
        let excepted = exceptions.iter().any(|(path, _)| *path == file.path);
        if lines > cap && !excepted {
            findings.push(Finding::new(&file.path, 0, format!("{lines} lines, at most {cap}; split it")));
        }
        if lines <= cap && excepted {
            findings.push(Finding::new(&file.path, 0, "fits its cap again; remove the exception"));
        }
    }
    for (path, _) in exceptions {
        if !tree.rust().any(|file| file.path == *path) {
            findings.push(Finding::new(path, 0, "does not exist any more; remove the exception"));
        }
    }
    let median = percentile(&sorted_lengths(tree), 50);
    if median >= MEDIAN_CAP {
        findings.push(Finding::new(
            "(all files)",
            0,
            format!("median {median} lines, under {MEDIAN_CAP} wanted"),
        ));
    }
    findings
}

/// One line of statistics for people.
pub(super) fn report(tree: &Tree) -> String {
    let lengths = sorted_lengths(tree);
    format!(
        "{} Rust files; lines without tests: median {}, 90th percentile {}, largest {}",
        lengths.len(),
        percentile(&lengths, 50),
        percentile(&lengths, 90),
        percentile(&lengths, 100)
    )
}

fn counted_lines(file: &SourceFile) -> usize {
    file.without_tests().lines().filter(|line| !line.trim().is_empty()).count()
}

fn cap_of(path: &str) -> usize {
    let is_kernel =
        path.starts_with("plugins/") && ["/kernel/", "/kernels/"].iter().any(|folder| path.contains(folder));
    if is_kernel { KERNEL_CAP } else { CAP }
}

fn sorted_lengths(tree: &Tree) -> Vec<usize> {
    let mut lengths: Vec<usize> = tree.rust().map(counted_lines).collect();
    lengths.sort_unstable();
    lengths
}

/// The value that `percent` of the sorted values do not exceed; zero when there are none.
fn percentile(sorted: &[usize], percent: usize) -> usize {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize) -> String {
        "let a = 1;\n\n".repeat(count)
    }

    #[test]
    fn a_long_file_and_a_long_kernel_are_found_and_blank_lines_are_free() {
        let (fits, long) = (lines(300), lines(601));
        let kernel = lines(301);
        let tree = Tree::of(&[
            ("host/a.rs", &fits),
            ("host/b.rs", &long),
            ("plugins/cpu/src/kernels/c.rs", &kernel),
            ("host/d.rs", ""),
            ("host/e.rs", ""),
            ("host/f.rs", ""),
        ]);
        let found: Vec<String> = check_with(&tree, &[]).into_iter().map(|finding| finding.path).collect();
        assert_eq!(found, ["host/b.rs", "plugins/cpu/src/kernels/c.rs"]);
    }

    #[test]
    fn the_tests_module_does_not_count() {
        let text = format!("//! A.\n#[cfg(test)]\nmod tests {{\n{}}}\n", lines(700));
        assert!(check_with(&Tree::of(&[("a.rs", &text)]), &[]).is_empty());
    }

    #[test]
    fn an_exception_excuses_and_a_stale_one_is_found() {
        let long = lines(601);
        let tree = Tree::of(&[("a.rs", &long), ("b.rs", ""), ("c.rs", ""), ("d.rs", "")]);
        assert!(check_with(&tree, &[("a.rs", "a table")]).is_empty());
        let found = check_with(&tree, &[("a.rs", "a table"), ("b.rs", "was long"), ("z.rs", "gone")]);
        let paths: Vec<&str> = found.iter().map(|finding| finding.path.as_str()).collect();
        assert_eq!(paths, ["b.rs", "z.rs"]);
    }

    #[test]
    fn a_median_out_of_bounds_is_found() {
        let middling = lines(250);
        let found = check_with(&Tree::of(&[("a.rs", &middling)]), &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].message.contains("median 250"), "{found:?}");
    }
}
