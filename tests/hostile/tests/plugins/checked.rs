//! Checked in a child process, which crashes and hangs in the place of whoever asked.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use cajeta_conformance::{Apart, ApartError, Finding, Heard, Options, Outcome, Report, run_apart};

use crate::folder::Folder;

fn apart(seconds: f64) -> Apart {
    Apart {
        program: env!("CARGO_BIN_EXE_hostile-check").into(),
        arguments: Vec::new(),
        limit: Duration::from_secs_f64(seconds),
        shown: |_| (),
    }
}

/// Checks a plugin of one behaviour: its rows and its registry, not the calls.
fn check(behaviour: &str, seconds: f64) -> Result<Report, ApartError> {
    let folder = Folder::new();
    let manifest = folder.plugin(behaviour, "zebra");
    let options = Options { filter: Some(String::new()), cases: 2, ..Options::default() };
    run_apart(&apart(seconds), &manifest, 0, &options, &mut |_| ControlFlow::Continue(()))
}

/// What is said of a row.
fn of<'a>(report: &'a Report, row: &str) -> &'a Outcome {
    &report.rows.iter().find(|found| found.row == row).expect(row).outcome
}

#[test]
fn a_kernel_that_crashes_or_hangs_fails_alone() {
    let begun = Instant::now();
    let report = check("has-bad-kernels", 2.0).expect("a report");
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    let names: Vec<&str> = report.rows.iter().map(|row| row.row.as_str()).collect();
    let all = ["copyFirst", "faults", "copyAfterFault", "hangs", "exits", "panics", "copyLast"];
    assert_eq!(names, all, "each once, in order");
    for honest in ["copyFirst", "copyAfterFault", "copyLast"] {
        assert_eq!(*of(&report, honest), Outcome::Passed, "{honest}");
    }
    for (row, words) in [
        ("faults", ["case 0: copy, M 1 N ", ": it died of signal 11 (SIGSEGV"]),
        ("hangs", ["case 0: copy, M 1 N ", ": no end within 2 s; its last words: waiting for the card"]),
        ("exits", ["case 0: copy, M 1 N ", ": it ended the process with exit code 0"]),
        ("panics", ["signal 6 (SIGABRT", "; its last words: the kernel is on fire"]),
    ] {
        let Outcome::Failed(why) = of(&report, row) else { panic!("{row} is {:?}", of(&report, row)) };
        assert!(words.iter().all(|word| why.contains(word)), "{row}: {why}");
        assert!(!why.chars().any(char::is_control), "{why:?}");
    }
    let checks: Vec<&str> = report.checks.iter().map(|check| check.check.as_str()).collect();
    assert!(checks.contains(&"rows are well formed"), "the run went on to its end: {checks:?}");
    assert!(!report.passed());
}

#[test]
fn what_is_found_is_told_at_once() {
    let folder = Folder::new();
    let manifest = folder.plugin("has-bad-kernels", "zebra");
    let options = Options { filter: Some("s".into()), cases: 1, ..Options::default() };
    let (begun, mut told) = (Instant::now(), Vec::new());
    // The first of these faults; the next hangs for as long as it may.
    let report = run_apart(&apart(120.0), &manifest, 0, &options, &mut |heard| match heard {
        Heard::Begun(report, width) => {
            told.push(format!("{} {width}", report.backend));
            ControlFlow::Continue(())
        }
        Heard::Found(finding) => {
            told.push(finding.line(9));
            if told.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    });
    let report = report.expect("what there is");
    assert_eq!(told[0], "zebra 9");
    assert!(
        told[1].starts_with("  ok    copyFirst  ") && told[2].starts_with("  FAIL  faults     "),
        "{told:?}"
    );
    assert_eq!((report.rows.len(), report.checks.len()), (2, 0));
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn dying_while_shutting_down_is_a_finding() {
    let report = check("aborts-in-shutdown", 20.0).expect("a report");
    assert_eq!(*of(&report, "copy"), Outcome::Passed);
    let last = report.checks.last().expect("checks");
    let Outcome::Failed(why) = &last.outcome else { panic!("{last:?}") };
    assert!(last.check == "it shuts down" && why.contains("SIGABRT"), "{last:?}");
    let honest = check("honest", 20.0).expect("a report");
    assert!(honest.checks.iter().all(|check| check.check != "it shuts down"), "{honest}");
}

#[test]
fn a_plugin_that_does_not_open_has_no_report() {
    for (behaviour, words) in [
        ("panics-in-probe", "SIGABRT: it aborted); its last words: the card is on fire"),
        ("aborts-in-a-constructor", "opening the plugin: it died of signal 6"),
        ("exits-in-probe", "exit code 0"),
        ("hangs-in-the-host", "no end within 2 s; its last words: waiting for the card"),
    ] {
        match check(behaviour, 2.0) {
            Err(error @ ApartError::Died(_)) => {
                assert!(error.to_string().contains(words), "{behaviour}: {error}");
            }
            other => panic!("{behaviour}: {other:?}"),
        }
    }
    match check("has-no-driver", 20.0) {
        Err(ApartError::Refused(why)) => assert!(why.contains("libnodriver.so.1 not found"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_plugin_prints_is_not_taken_for_a_finding() {
    let report = check("prints-rubbish", 20.0).expect("a report");
    assert_eq!(*of(&report, "copy"), Outcome::Passed);
    assert_eq!(report.device, "Pretend card [5m", "no escape sequence gets through");
}

#[test]
fn a_program_that_is_no_checker_is_an_error() {
    let folder = Folder::new();
    let manifest = folder.plugin("honest", "zebra");
    let options = Options::default();
    let mut hear = |_: Heard<'_>| ControlFlow::Continue(());
    let none = Apart { program: folder.path.join("none"), ..apart(5.0) };
    let error = run_apart(&none, &manifest, 0, &options, &mut hear).expect_err("there is none");
    assert!(error.to_string().contains("does not start"), "{error}");
    let echo = Apart { program: "/bin/echo".into(), ..apart(5.0) };
    let error = run_apart(&echo, &manifest, 0, &options, &mut hear).expect_err("it says other things");
    assert!(error.to_string().contains("something else wrote its report"), "{error}");
}

#[test]
fn a_wrong_result_names_its_case() {
    let report = check("computes-something-else", 20.0).expect("a report");
    // Byte 17 is wrong, which the smallest problems do not have.
    match of(&report, "copy") {
        Outcome::Failed(why) => assert!(why.contains("case ") && why.contains(": copy, M "), "{why}"),
        other => panic!("{other:?}"),
    }
    let found = Finding::Row(report.rows[0].clone());
    assert!(found.line(4).starts_with("  FAIL  copy  case "), "{}", found.line(4));
}
