//! Where words go, and what happens when they cannot: progress, closed pipes, full disks.

use std::fs::File;
use std::process::Stdio;

use crate::program::{Run, bare, finish, model, on_reference, with_plugins};
use crate::terminal::Terminal;

/// A load that takes a second or more.
const SLOW: [(&str, &str); 1] = [("CAJETA_REFERENCE_LATENCY_US", "60000")];

#[test]
fn a_long_load_shows_progress_to_people_and_takes_it_away() {
    let model = model();
    let args = ["run", &model, "-p", "x", "--raw", "-n", "1", "--temp", "0"];
    let (code, shown) = Terminal::start(&on_reference(&args, &SLOW)).end();
    assert_eq!(code, Some(0), "{shown}");
    let bar = shown.find("MiB of").expect("a bar");
    assert!(shown[bar..].contains("\u{1b}[2K"), "it is taken away: {shown:?}");
    // What is read by a program is the same without a terminal.
    let run = finish(on_reference(&args, &SLOW));
    assert!(!run.err.contains("loading") && run.err.lines().count() == 1, "{run:?}");
    let mut dumb = on_reference(&args, &SLOW);
    dumb.env("TERM", "dumb");
    let (code, shown) = Terminal::start(&dumb).end();
    assert!(code == Some(0) && !shown.contains("loading"), "{shown:?}");
}

#[test]
fn progress_goes_to_standard_error_alone() {
    let model = model();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("answer");
    let out = File::create(&path).expect("created");
    let args = ["run", &model, "-p", "x", "--raw", "-n", "1", "--temp", "0", "--json"];
    let (code, shown) =
        Terminal::start_with(&on_reference(&args, &SLOW), |command| command.stdout(out)).end();
    assert!(code == Some(0) && shown.contains("MiB of"), "{shown:?}");
    let answer = std::fs::read_to_string(path).expect("an answer");
    assert!(answer.starts_with('{') && answer.lines().count() == 1, "{answer}");
}

#[test]
fn a_full_disk_is_told_in_one_sentence() {
    let model = model();
    let onto_full = |args: &[&str]| {
        let mut command = with_plugins(args);
        command.stdout(File::create("/dev/full").expect("a device"));
        command.stderr(Stdio::piped());
        Run::of(command.spawn().expect("starts").wait_with_output().expect("ends"))
    };
    for args in [
        &["run", &model, "-p", "x", "--temp", "0"][..],
        &["run", &model, "-p", "x", "--temp", "0", "--json"],
        &["inspect", &model, "--tensors"],
        &["inspect", &model, "--json"],
        &["--help"],
        &["completions", "bash"],
        &["tokenize", &model, "x"],
        &["backends"],
    ] {
        onto_full(args).failure(1, &["standard output", "No space left"]);
    }
}

#[test]
fn a_reader_that_leaves_ends_any_command_in_silence() {
    let model = model();
    for args in [&["inspect", &model, "--tensors"][..], &["help", "run"], &["completions", "zsh"]] {
        let mut command = bare(args);
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        command.stdout(writer).stderr(Stdio::piped());
        let run = Run::of(command.spawn().expect("starts").wait_with_output().expect("ends"));
        assert_eq!((run.code, run.err.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_closed_standard_error_changes_nothing() {
    let model = model();
    let mut command = with_plugins(&["run", &model, "-p", "x", "--raw", "-n", "2", "--temp", "0"]);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    command.stderr(writer).stdout(Stdio::piped());
    let run = Run::of(command.spawn().expect("starts").wait_with_output().expect("ends"));
    assert!(run.code == Some(0) && !run.out.is_empty(), "{run:?}");
}

#[test]
fn an_answer_cannot_steer_a_terminal() {
    let model = model();
    // The tokens of an escape sequence, made into text again.
    let ids = finish(bare(&["tokenize", &model, "a\u{1b}[2Jb", "--json"])).json()["ids"].to_string();
    let args = ["detokenize", &model, &ids];
    assert_eq!(finish(bare(&args)).success(), "a\u{1b}[2Jb", "a program gets the text as it is");
    let (code, shown) = Terminal::start(&bare(&args)).end();
    assert!(code == Some(0) && shown.contains("a\u{fffd}[2Jb"), "{shown:?}");
}
