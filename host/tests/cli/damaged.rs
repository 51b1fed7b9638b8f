//! Files that are no models, cut short, or altered: one sentence, never a crash.

use std::path::{Path, PathBuf};

use crate::program::{Run, bare, finish, model, with_plugins};

fn write(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("written");
    path
}

#[test]
fn what_is_no_model_is_said_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = write(folder.path(), "empty.gguf", b"");
    let page = write(folder.path(), "page.gguf", b"<html>not found</html>");
    let missing = folder.path().join("missing.gguf");
    for (path, part) in [
        (empty.as_path(), "the file is empty"),
        (&page, "web page"),
        (&missing, "No such file"),
        (folder.path(), "a directory"),
        (Path::new("/dev/null"), "device"),
    ] {
        let path = path.display().to_string();
        for args in [&["run", &path, "-p", "x"][..], &["inspect", &path], &["tokenize", &path, "x"]] {
            finish(bare(args)).failure(1, &[&path, part]);
        }
    }
}

#[test]
fn a_file_cut_anywhere_ends_with_a_sentence() {
    let whole = std::fs::read(model()).expect("the model");
    let folder = tempfile::tempdir().expect("a folder");
    for length in [3, 4, 20, 24, 100, 5_000, 100_000, 180_000, whole.len() / 2, whole.len() - 1] {
        let path = write(folder.path(), "cut.gguf", &whole[..length]).display().to_string();
        finish(bare(&["inspect", &path])).failure(1, &[&path]);
        finish(bare(&["tokenize", &path, "x"])).failure(1, &[&path]);
        finish(with_plugins(&["run", &path, "-p", "x", "-n", "1"])).failure(1, &[&path]);
    }
}

/// Changed bytes may go unseen (a weight, a token's text); then the program does its work. They never
/// end it in another way.
#[test]
fn a_file_altered_anywhere_ends_with_a_sentence_or_works() {
    let whole = std::fs::read(model()).expect("the model");
    let folder = tempfile::tempdir().expect("a folder");
    let mut refused = 0;
    // Most of what can go wrong is in the first bytes: the header, the keys, the tensor table.
    let places = (0..24).chain((24..1_800).step_by(37)).chain((150_000..whole.len()).step_by(400_000));
    for (number, at) in places.enumerate() {
        let mut altered = whole.clone();
        altered[at] ^= [0xff, 0x01, 0x80][number % 3];
        let path = write(folder.path(), "altered.gguf", &altered).display().to_string();
        let acceptable = |run: Run| match run.code {
            Some(0) => false,
            _ => {
                run.failure(1, &[]);
                true
            }
        };
        refused += usize::from(acceptable(finish(bare(&["inspect", &path]))));
        acceptable(finish(with_plugins(&["run", &path, "-p", "x", "-n", "1"])));
    }
    assert!(refused > 20, "{refused}");
}
