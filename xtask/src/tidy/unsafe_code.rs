//! Rule: `unsafe` stays where this list allows it, and every block carries its proof.

use super::Finding;
use super::tree::Tree;

/// Where `unsafe` may appear (a path prefix from the workspace root, `*` for one folder), and why.
const ALLOWED: [(&str, &str); 19] = [
    (
        "host/tests/route/counting.rs",
        "an allocator that counts, for the test that resolving allocates nothing",
    ),
    ("host/src/fault/", "the handler of one signal, the silence of another, and the allocator of last words"),
    ("host/plugin/", "the host's only foreign calls: opening libraries and calling their tables"),
    ("plugin-api/abi/", "types that cross the library boundary"),
    ("plugin-api/sdk/", "the export macro turns foreign calls into safe ones"),
    ("plugin-api/tests/", "tests that call a plugin's tables as the host does"),
    ("model-arch/src/gguf/file.rs", "the one memory map"),
    ("plugins/*/src/device/", "device memory is addressed by the plugin itself"),
    ("plugins/*/src/driver/", "calls into a driver library opened at run time"),
    ("plugins/*/src/sys.rs", "questions to the operating system"),
    ("plugins/cpu/src/simd/", "SIMD instructions"),
    ("plugins/cpu/src/kernel/", "kernels over SIMD and raw device memory"),
    ("plugins/cpu/src/format/", "block decoding in SIMD registers"),
    ("plugins/cpu/src/task/", "kernel arguments are raw device memory, shared by threads"),
    ("plugins/cpu/src/tests/", "tests that hand kernels raw memory, as launches do"),
    ("plugins/cpu/examples/", "timing kernels on raw memory"),
    ("plugins/cuda/examples/", "timing kernels on device memory"),
    ("tests/fuzz/src/rows.rs", "rows as a library would hand them over, bad pointers included"),
    ("tests/hostile/", "plugins that misbehave on purpose"),
];

/// Uses of `unsafe` outside the allowed places, and blocks or impls without a `SAFETY:` comment.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, &ALLOWED)
}

fn check_with(tree: &Tree, allowed: &[(&str, &str)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust() {
        let code = file.code();
        let code: Vec<&str> = code.lines().collect();
        let text: Vec<&str> = file.text.lines().collect();
        let uses: Vec<(usize, &str)> = code
            .iter()
            .enumerate()
            .flat_map(|(index, line)| after_each_unsafe(line).map(move |after| (index, after)))
            .collect();
        if !allowed.iter().any(|(place, _)| is_within(&file.path, place)) {
            // One finding for the file: where it begins is enough to see that it is misplaced.
            findings.extend(uses.first().map(|(index, _)| {
                let message = format!("`unsafe` ({} times) is not allowed here; use a safe face", uses.len());
                Finding::new(&file.path, index + 1, message)
            }));
            continue;
        }
        for (index, after) in uses {
            if needs_proof(after) && !has_proof(&text, &code, index) {
                findings.push(Finding::new(
                    &file.path,
                    index + 1,
                    "say why this is sound in a `// SAFETY:` comment directly above",
                ));
            }
        }
    }
    findings
}

/// Whether `path` begins as `place` says.
fn is_within(path: &str, place: &str) -> bool {
    let Some((before, after)) = place.split_once('*') else { return path.starts_with(place) };
    let inner = path.strip_prefix(before).and_then(|rest| rest.split_once('/'));
    inner.is_some_and(|(_, rest)| rest.starts_with(after.trim_start_matches('/')))
}

/// What follows each `unsafe` keyword of a line.
fn after_each_unsafe(line: &str) -> impl Iterator<Item = &str> {
    const WORD: &str = "unsafe";
    let in_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(WORD).filter_map(move |(at, _)| {
        let after = &line[at + WORD.len()..];
        let whole = !line[..at].ends_with(in_word) && !after.starts_with(in_word);
        whole.then_some(after.trim_start())
    })
}

/// Blocks and impls assert something; declarations (`unsafe fn`, attributes) only ask for it.
fn needs_proof(after: &str) -> bool {
    after.starts_with('{') || after.starts_with("impl") || after.is_empty()
}

/// Whether a `SAFETY:` comment stands on this line, or above the statement this line belongs to.
fn has_proof(text: &[&str], code: &[&str], index: usize) -> bool {
    if text[index].contains("SAFETY:") {
        return true;
    }
    for above in (0..index).rev() {
        let (line, stripped) = (text[above].trim(), code[above].trim());
        if line.starts_with("//") {
            if line.contains("SAFETY:") {
                return true;
            }
        } else if line.is_empty() || stripped.ends_with([';', '{', '}']) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: [(&str, &str); 1] = [("sys/", "foreign calls")];

    fn messages(path: &str, text: &str) -> Vec<usize> {
        check_with(&Tree::of(&[(path, text)]), &PLACES).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn unsafe_outside_its_places_is_found_even_with_a_proof() {
        assert_eq!(messages("a.rs", "// SAFETY: checked.\nunsafe { f() }\n"), [2]);
        assert_eq!(messages("a.rs", "unsafe fn f() {}\n"), [1]);
    }

    #[test]
    fn a_star_stands_for_one_folder() {
        assert!(is_within("plugins/x/src/device/queue.rs", "plugins/*/src/device/"));
        assert!(!is_within("plugins/x/y/src/device/queue.rs", "plugins/*/src/device/"));
        assert!(!is_within("plugins/x/src/registry.rs", "plugins/*/src/device/"));
    }

    #[test]
    fn prose_and_longer_words_are_not_unsafe() {
        assert!(
            messages("a.rs", "// unsafe { }\nlet a = \"unsafe { }\";\n#![deny(unsafe_code)]\n").is_empty()
        );
    }

    #[test]
    fn a_block_without_a_proof_is_found() {
        assert_eq!(messages("sys/a.rs", "let a = 1;\nlet b = unsafe { f() };\n"), [2]);
        assert_eq!(messages("sys/a.rs", "// Fast.\nunsafe impl Send for A {}\n"), [2]);
        assert_eq!(messages("sys/a.rs", "// SAFETY: of the line below only.\nf();\nunsafe { g() }\n"), [3]);
    }

    #[test]
    fn a_proof_above_the_statement_or_on_its_line_counts() {
        assert!(
            messages(
                "sys/a.rs",
                "// SAFETY: a is live\n// until the end.\nlet b = f(\n    unsafe { g(a) },\n);\n"
            )
            .is_empty()
        );
        assert!(messages("sys/a.rs", "unsafe { g(a) } // SAFETY: a is live.\n").is_empty());
        assert!(messages("sys/a.rs", "// SAFETY: no shared state.\nunsafe impl Send for A {}\n").is_empty());
    }

    #[test]
    fn declarations_need_no_proof_of_their_own() {
        assert!(
            messages("sys/a.rs", "unsafe fn f() {}\n#[unsafe(no_mangle)]\nextern \"C\" fn g() {}\n")
                .is_empty()
        );
    }
}
