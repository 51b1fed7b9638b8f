//! Files that are no models, cut short, or altered, given to the real program within limits of time and
//! memory: one sentence that names the file, never a crash.
//!
//! What is wrong with each file of [`cajeta_hostile`], and who finds it, stands beside the file.

use std::path::Path;
use std::process::Command;

use cajeta_hostile::files::{Case, Finder, cases, scored, whole};

use crate::program::{Run, bare, finish, model, with_plugins};

/// Address space of a run, in KiB: far more than any of these files needs.
const MEMORY_KIB: u64 = 4 << 20;
/// Seconds of a run. A template may use up its budget of work, which takes some seconds.
const SECONDS: u32 = 60;

/// The same command within the limits.
fn limited(command: Command) -> Command {
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit -v {MEMORY_KIB}; exec timeout {SECONDS} \"$@\"")).arg("sh");
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited.stdin(std::process::Stdio::null());
    limited
}

/// A command that reads a model, and the finders of what it must notice.
type Reader = (Command, &'static [Finder]);

/// The commands that read a model.
fn readers(path: &str, ids: &str) -> [Reader; 4] {
    use Finder::{Chat, Model, Open, Step, Tokenizer};
    let run = ["run", path, "-p", "ab", "-n", "1", "--chat"];
    [
        (bare(&["inspect", path]), &[Open]),
        (bare(&["tokenize", path, "ab"]), &[Open, Tokenizer]),
        (with_plugins(&["score", path, "--ids", ids]), &[Open, Tokenizer, Model, Step]),
        (with_plugins(&run), &[Open, Tokenizer, Model, Chat, Step]),
    ]
}

/// Whether a run ended well for a file with that wrong: with success where it need not notice, else with
/// one sentence that names the file and the fault.
fn judge(run: &Run, case: &Case, path: &str, must: bool) -> Result<(), String> {
    let told = format!("{}: exit {:?}, {:?}", case.name, run.code, run.err);
    match run.code {
        Some(0) if must => Err(format!("{told}: it went on as if nothing was wrong")),
        Some(0) => Ok(()),
        Some(1) => {
            let sentence = run.err.strip_suffix('\n').unwrap_or(&run.err);
            let one = sentence.starts_with("cajeta: ") && !sentence.contains('\n');
            let defect = sentence.contains("defect of cajeta") || sentence.contains("panicked");
            // What a conversation or a step shows is wrong was not seen in the file.
            let named = sentence.contains(path) || case.finder >= Finder::Chat;
            let right = one && !defect && named && sentence.contains(&case.says);
            if right { Ok(()) } else { Err(told) }
        }
        _ => Err(told),
    }
}

/// What any of the commands does wrong with a file.
fn check(folder: &Path, case: &Case) -> Vec<String> {
    let path = folder.join(format!("{}.gguf", case.name)).display().to_string();
    let ids = folder.join("ids.json").display().to_string();
    std::fs::write(&path, &case.bytes).expect("written");
    std::fs::write(&ids, "[97, 98, 97]").expect("written");
    let mut readers: Vec<Reader> = readers(&path, &ids).into();
    if case.finder == Finder::Open {
        // All commands open a file in the same way; two show it.
        readers.drain(1..3);
    }
    let judged = readers.into_iter().map(|(command, notices)| {
        judge(&finish(limited(command)), case, &path, notices.contains(&case.finder))
    });
    let wrong = judged.filter_map(Result::err).collect();
    std::fs::remove_file(&path).expect("removed");
    wrong
}

#[test]
fn each_hostile_file_ends_with_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = cases();
    let wrong: Vec<String> = cases.iter().flat_map(|case| check(folder.path(), case)).collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn what_they_were_made_of_works_in_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, draft) in [("whole", whole()), ("scored", scored())] {
        let path = folder.path().join(name).display().to_string();
        let ids = folder.path().join("ids.json").display().to_string();
        std::fs::write(&path, draft.bytes()).expect("written");
        std::fs::write(&ids, "[97, 98, 97]").expect("written");
        for (command, notices) in readers(&path, &ids) {
            // The second has no chat template.
            if name == "whole" || !notices.contains(&Finder::Chat) {
                finish(limited(command)).success();
            }
        }
    }
}

#[test]
fn what_is_no_file_is_said_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.gguf");
    for (path, part) in [
        (missing.as_path(), "No such file"),
        (folder.path(), "a directory"),
        (Path::new("/dev/null"), "device"),
    ] {
        let path = path.display().to_string();
        for args in [&["run", &path, "-p", "x"][..], &["inspect", &path], &["tokenize", &path, "x"]] {
            finish(limited(bare(args))).failure(1, &[&path, part]);
        }
    }
}

/// Changed bytes of a real model may go unseen (a weight, a token's text); then the program does its work.
/// They never end it in another way.
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
        let path = folder.path().join("altered.gguf");
        std::fs::write(&path, &altered).expect("written");
        let path = path.display().to_string();
        let acceptable = |run: Run| match run.code {
            Some(0) => false,
            _ => {
                run.failure(1, &[]);
                true
            }
        };
        refused += usize::from(acceptable(finish(limited(bare(&["inspect", &path])))));
        acceptable(finish(limited(with_plugins(&["run", &path, "-p", "x", "-n", "1"]))));
    }
    assert!(refused > 20, "{refused}");
}
