//! Refused by the child process, which died in the host's place.

use std::time::{Duration, Instant};

use cajeta_plugin_host::{Outcome, SelectOptions, Stage, explain};

use crate::folder::{
    Folder, Lines, assert_behaviour, assert_refused, explained, only_candidate, options, refusal,
};

#[test]
fn panics_crashes_and_exits() {
    for (behaviour, stage, words) in [
        ("panics-in-probe", Stage::Probe, ["SIGABRT", "the card is on fire"]),
        ("faults-in-probe", Stage::Probe, ["SIGSEGV", "stage probe"]),
        ("exits-in-probe", Stage::Probe, ["exit code 0", "stage probe"]),
        ("panics-in-rows", Stage::Layout, ["SIGABRT", "rows are a secret"]),
        ("panics-in-geometry", Stage::Layout, ["SIGABRT", "too many dimensions"]),
        ("aborts-in-a-constructor", Stage::Open, ["SIGABRT", "stage open"]),
        ("exits-in-a-constructor", Stage::Open, ["exit code 3", "stage open"]),
        ("aborts-in-shutdown", Stage::Device, ["SIGABRT", "stage device"]),
        ("aborts-at-exit", Stage::Device, ["SIGABRT", "stage device"]),
    ] {
        assert_behaviour(behaviour, stage, &words);
    }
}

#[test]
fn hangs_end_at_the_time_limit() {
    for (behaviour, stage) in [
        ("hangs-in-a-constructor", Stage::Open),
        ("hangs-in-probe", Stage::Probe),
        ("hangs-in-poll", Stage::Device),
        ("is-never-done", Stage::Device),
    ] {
        let folder = Folder::new();
        folder.plugin(behaviour, "zebra");
        let mut options = options(&[&folder], Some("zebra"));
        options.probe.time_limit = Duration::from_millis(2500);
        let begun = Instant::now();
        let candidates = explain(&options).expect("explained").candidates;
        assert!(begun.elapsed() < Duration::from_secs(30), "{behaviour}: {:?}", begun.elapsed());
        let Outcome::Refused(refused) = &candidates[0].outcome else { panic!("{candidates:?}") };
        assert_refused(refused, stage, &["no answer within 2.5 s"]);
        if behaviour == "hangs-in-probe" {
            assert!(refused.reason.contains("its last words: waiting for the card"), "{refused}");
        }
    }
}

#[test]
fn a_process_left_behind_keeps_nobody_waiting() {
    let folder = Folder::new();
    folder.plugin("leaves-a-process-behind", "zebra");
    let begun = Instant::now();
    assert!(only_candidate(&folder).is_usable());
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[test]
fn no_driver_is_an_ordinary_answer() {
    let folder = Folder::new();
    let library = folder.library("has-no-driver", "zebra");
    let drivers = "[{name = \"libnodriver.so.1\", remedy = \"install the zebra driver\"}]";
    folder.manifest("zebra", &Lines::of("zebra", &library).with("driver_libraries", drivers));
    let refused = refusal(&folder);
    assert_refused(&refused, Stage::Probe, &["unavailable", "libnodriver.so.1 not found"]);
    assert_eq!(refused.remedy, "install the zebra driver");
}

#[test]
fn answers_that_make_no_sense() {
    for (behaviour, stage, words) in [
        ("answers-an-unknown-code", Stage::Probe, "internal error"),
        ("lists-no-device", Stage::Device, "lists no device"),
        ("lists-a-million-devices", Stage::Device, "1000000 devices"),
        ("opens-nothing", Stage::Device, "internal error"),
        ("is-lost-when-opened", Stage::Device, "fell off the bus"),
        ("allocates-nothing", Stage::Device, "without an object"),
        ("gives-the-same-ticket", Stage::Device, "ticket 7 after ticket 7"),
        ("is-lost-on-upload", Stage::Device, "fell off the bus in row 3"),
        ("is-lost-while-waiting", Stage::Device, "device lost"),
        ("splits-backwards", Stage::Layout, "at least 9 and at most 1"),
        ("computes-something-else", Stage::Device, "trial kernel `copy` computed"),
    ] {
        assert_behaviour(behaviour, stage, &[words]);
    }
}

#[test]
fn what_it_prints_is_not_taken_for_a_verdict() {
    let folder = Folder::new();
    folder.plugin("prints-rubbish", "zebra");
    let Outcome::Usable { devices, kernel, .. } = only_candidate(&folder).outcome else {
        panic!("{}", explained(&folder));
    };
    assert_eq!(devices.len(), 1, "the forged verdict lists none");
    assert_eq!(kernel, "copy");
    assert_eq!(devices[0].name, "Pretend card [5m", "no escape sequence gets through");
}

#[test]
fn no_program_to_probe_with() {
    let folder = Folder::new();
    folder.plugin("honest", "zebra");
    let mut options = options(&[&folder], Some("zebra"));
    options.probe.program = None;
    let refused =
        |options: &SelectOptions| match explain(options).expect("explained").candidates.remove(0).outcome {
            Outcome::Refused(refused) => refused,
            other => panic!("{other:?}"),
        };
    assert_refused(&refused(&options), Stage::Probe, &["cajeta-probe", "not beside the executable"]);
    options.probe.program = Some(folder.path.join("none"));
    assert_refused(&refused(&options), Stage::Probe, &["does not start"]);
}

#[test]
fn only_successes_are_stored_and_only_while_they_hold() {
    let folder = Folder::new();
    let cache = Folder::new();
    let library = folder.library("honest", "zebra");
    folder.manifest("zebra", &Lines::of("zebra", &library));
    folder.plugin("panics-in-probe", "yak");
    let mut options = options(&[&folder], None);
    options.probe.cache = Some(cache.path.join("probe"));
    let cached = || {
        let explanation = explain(&options).expect("explained");
        let zebra = explanation.candidates.iter().find(|candidate| candidate.id == "zebra").expect("found");
        let yak = explanation.candidates.iter().find(|candidate| candidate.id == "yak").expect("found");
        assert!(!yak.is_usable(), "a failure is found again each time");
        match zebra.outcome {
            Outcome::Usable { cached, .. } => cached,
            ref other => panic!("{other:?}"),
        }
    };
    assert!(!cached(), "the first probe runs");
    assert!(cached(), "the second is answered from the first");
    folder.library("honest", "zebra");
    assert!(!cached(), "another build of the library is probed again");
    folder
        .manifest("zebra", &Lines::of("zebra", &library).with("visibility_variables", "[\"ZEBRA_VISIBLE\"]"));
    assert!(!cached(), "another manifest is probed again");
    assert!(cached());
    assert_eq!(std::fs::read_dir(cache.path.join("probe")).expect("made").count(), 1, "yak is not stored");
}
