//! The text files of the workspace, read once, as the rules see them.

use std::fs;
use std::path::Path;

use super::code;
use crate::failure::{Failure, Outcome};

/// Extensions of files that people write; data and lock files are not ours to judge.
const WRITTEN: [&str; 15] =
    ["rs", "toml", "md", "sh", "py", "yml", "yaml", "c", "h", "cpp", "hpp", "cu", "cuh", "hip", "comp"];

/// One file: its path from the workspace root with forward slashes, and its text.
pub(super) struct SourceFile {
    pub(super) path: String,
    pub(super) text: String,
}

impl SourceFile {
    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// The text with comments and literals blanked out, line by line as before.
    pub(super) fn code(&self) -> String {
        code::blank_prose(&self.text)
    }

    /// The text before the trailing `#[cfg(test)] mod …`, which no budget counts.
    pub(super) fn without_tests(&self) -> &str {
        &self.text[..tests_begin(&self.text)]
    }
}

/// Byte where the last unindented `#[cfg(test)]` that starts an inline module stands, or the length.
fn tests_begin(text: &str) -> usize {
    const MARK: &str = "\n#[cfg(test)]\n";
    let Some(at) = text.rfind(MARK) else { return text.len() };
    let mut after = text[at + MARK.len()..].lines().skip_while(|line| line.starts_with("#["));
    match after.next() {
        Some(line) if line.trim_start_matches("pub(crate) ").starts_with("mod ") && line.ends_with('{') => {
            at + 1
        }
        _ => text.len(),
    }
}

/// All files, sorted by path.
pub(super) struct Tree {
    pub(super) files: Vec<SourceFile>,
}

impl Tree {
    /// Reads the workspace, leaving out build products and hidden folders other than `.ci`,
    /// `.cargo` and `.config`.
    pub(super) fn read(root: &Path) -> Outcome<Self> {
        let mut files = Vec::new();
        walk(root, "", &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { files })
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.is_rust())
    }

    /// A tree for tests of rules: pairs of path and text.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|(path, text)| SourceFile { path: (*path).to_owned(), text: (*text).to_owned() })
            .collect();
        Self { files }
    }
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<SourceFile>) -> Outcome<()> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::file("list", folder, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| Failure::file("list", folder, &error))?;
        let kind = entry.file_type().map_err(|error| Failure::file("inspect", &entry.path(), &error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if kind.is_dir() {
            let hidden = name.starts_with('.') && ![".ci", ".cargo", ".config"].contains(&name.as_str());
            // A target folder is recognised by what cargo puts in it, not by a name alone.
            if !hidden && !entry.path().join("CACHEDIR.TAG").exists() {
                walk(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file() && is_written(&path) {
            let bytes =
                fs::read(entry.path()).map_err(|error| Failure::file("read", &entry.path(), &error))?;
            files.push(SourceFile { path, text: String::from_utf8_lossy(&bytes).into_owned() });
        }
    }
    Ok(())
}

fn is_written(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.rsplit_once('.') {
        Some((_, extension)) => WRITTEN.contains(&extension),
        None => path.starts_with(".ci/"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> SourceFile {
        SourceFile { path: "a.rs".to_owned(), text: text.to_owned() }
    }

    #[test]
    fn the_trailing_tests_module_is_cut_off() {
        let text = "//! A.\nfn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(file(text).without_tests(), "//! A.\nfn a() {}\n\n");
    }

    #[test]
    fn attributes_between_the_mark_and_the_module_do_not_hide_it() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(clippy::unwrap_used)]\nmod tests {\n}\n";
        assert_eq!(file(text).without_tests(), "fn a() {}\n");
    }

    #[test]
    fn a_test_only_item_in_the_middle_cuts_nothing() {
        let text = "fn a() {}\n#[cfg(test)]\nfn b() {}\nfn c() {}\n";
        assert_eq!(file(text).without_tests(), text);
    }

    #[test]
    fn reading_skips_build_products_and_data() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in [
            ("src/a.rs", "a"),
            ("out/CACHEDIR.TAG", ""),
            ("out/b.rs", "b"),
            ("c.gguf", "c"),
            (".ci/run", "d"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().expect("inside")).expect("created");
            fs::write(path, text).expect("written");
        }
        let tree = Tree::read(folder.path()).expect("readable");
        let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".ci/run", "src/a.rs"]);
    }
}
