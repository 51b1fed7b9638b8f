//! `devices`, `backends` and `kernels`: what there is, why, and which kernels serve.

use std::collections::BTreeSet;

use crate::program::{bare, finish, model, plugins, with_plugins};

#[test]
fn devices_come_with_their_facts() {
    let value = finish(with_plugins(&["devices", "--json"])).json();
    let backends = value["backends"].as_array().expect("a list");
    let cpu = backends.iter().find(|backend| backend["backend"] == "cpu").expect("the processor");
    assert_eq!(cpu["chosen"], true);
    let device = &cpu["devices"][0];
    assert!(!device["name"].as_str().expect("a name").is_empty());
    assert!(device["facts"]["memory_total_bytes"].as_u64().expect("bytes") > 0);
    finish(bare(&["devices"])).failure(1, &["backends --explain"]);
}

#[test]
fn backends_are_listed_and_explained() {
    let brief = finish(with_plugins(&["backends"])).success();
    assert!(brief.lines().any(|line| line.starts_with("cpu ") && line.contains("chosen")), "{brief}");
    let value = finish(with_plugins(&["backends", "--explain", "--json"])).json();
    assert_eq!(value["chosen"], "cpu");
    let candidates = value["candidates"].as_array().expect("a list");
    assert!(
        candidates
            .iter()
            .any(|candidate| candidate["id"] == "cpu" && candidate["outcome"]["state"] == "usable")
    );
    let text = finish(with_plugins(&["backends", "--explain"])).success();
    assert!(text.contains("searched:") && text.contains(&plugins().display().to_string()), "{text}");
    // That there is none is an answer too.
    assert!(finish(bare(&["backends"])).success().contains("no backend plugin was found"));
    assert_eq!(finish(bare(&["backends", "--json"])).json()["chosen"], serde_json::Value::Null);
}

#[test]
fn a_built_plugin_is_checked() {
    let manifest = plugins().join("cajeta-backend-cpu.toml").display().to_string();
    let check = ["backends", "check", &manifest, "--cases", "1", "--filter"];
    let value = finish(bare(&[&check[..], &["copy", "--json"]].concat())).json();
    assert_eq!(value["backend"], "cpu");
    let rows = value["rows"].as_array().expect("a list");
    assert!(!rows.is_empty());
    for row in rows {
        assert!(row["row"].as_str().expect("a name").contains("copy"), "{row}");
        assert_ne!(row["outcome"]["is"], "failed", "{row}");
    }
    finish(bare(&[&check[..], &["no such row"]].concat())).failure(1, &["no such row"]);
    finish(bare(&["backends", "check", "/nonexistent"])).failure(1, &["/nonexistent"]);
    finish(bare(&["backends", "check", &model()])).failure(1, &["refused at stage"]);
    for timeout in ["0", "soon"] {
        finish(bare(&["backends", "check", &manifest, "--timeout", timeout])).failure(2, &["--timeout"]);
    }
}

/// The reference backend, which can be told to misbehave, held to some rows of it.
fn check_reference(filter: &str, flags: &[&str], variables: &[(&str, &str)]) -> crate::program::Run {
    let library = plugins().join("libcajeta_backend_reference.so").display().to_string();
    assert!(std::path::Path::new(&library).exists(), "run `cargo build -p cajeta-backend-reference`");
    let check = ["backends", "check", &library, "--cases", "2", "--filter", filter];
    let mut command = bare(&[&check[..], flags].concat());
    command.envs(variables.iter().copied());
    finish(command)
}

#[test]
fn a_row_that_hangs_fails_its_check_and_the_next_runs() {
    let begun = std::time::Instant::now();
    let hang = [("CAJETA_REFERENCE_LATENCY_US", "600000000")];
    let run = check_reference("refAdd", &["--timeout", "1"], &hang);
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(run.code, Some(1), "{run:?}");
    let failed: Vec<&str> = run.out.lines().filter(|line| line.starts_with("  FAIL  refAdd")).collect();
    assert_eq!(failed.len(), 3, "one for each regime: {run:?}");
    for line in failed {
        assert!(line.contains("case 0: add, M ") && line.ends_with("no end within 1 s"), "{line}");
    }
    assert!(run.out.contains("  ok    rows are well formed"), "{run:?}");
    assert!(
        run.out.trim_end().ends_with("6 passed, 3 failed, 0 unsupported, 0 failed as expected"),
        "{run:?}"
    );
    assert!(run.err.starts_with("cajeta: backend `reference` failed 3 checks, the first refAddRow: case 0"));
}

#[test]
fn a_row_that_loses_the_device_leaves_a_fresh_one_to_the_next() {
    let run = check_reference("refAdd", &["--json"], &[("CAJETA_REFERENCE_LOSE_AFTER", "2")]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let report: serde_json::Value = serde_json::from_str(&run.out).expect("one value of JSON");
    let outcomes: Vec<&str> = report["rows"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["outcome"]["is"].as_str().expect("a word"))
        .collect();
    // Two lists run, those of the first row; the third is lost, and then there is a fresh device.
    assert_eq!(outcomes, ["passed", "failed", "passed"], "{report}");
    let why = report["rows"][1]["outcome"]["why"].as_str().expect("a reason");
    assert!(why.contains("case 0: add, M ") && why.contains("device lost"), "{why}");
}

#[test]
fn a_wrong_row_names_its_attributes_and_where_it_ran() {
    let forgets = [("CAJETA_REFERENCE_FAULT", "forgets_attributes")];
    let run = check_reference("refNormRow", &[], &forgets);
    let line = run.out.lines().find(|line| line.starts_with("  FAIL  refNormRow")).expect("it is found");
    assert!(line.contains("case 1: norm+norm-offset, M ") && line.contains(", in place: "), "{line}");
    let run = check_reference("refNormRow", &[], &[("CAJETA_REFERENCE_FAULT", "writes_input")]);
    assert!(run.out.contains("case 0: norm, M ") && run.out.contains(", not in place: "), "{run:?}");
}

#[test]
fn the_rows_that_serve_a_model_are_rows_of_the_backend() {
    let registry = finish(with_plugins(&["kernels", "--json"])).json();
    let rows = registry["rows"].as_array().expect("a list");
    let names: BTreeSet<&str> = rows.iter().map(|row| row["name"].as_str().expect("a name")).collect();
    assert_eq!(names.len(), rows.len());

    let value = finish(with_plugins(&["kernels", &model(), "--rows", "32", "--json"])).json();
    let segments = value["segments"].as_array().expect("a list");
    let of: Vec<&str> = segments.iter().map(|segment| segment["segment"].as_str().expect("a name")).collect();
    assert_eq!(of, ["decode step", "prefill chunk", "prefill tail"]);
    for segment in segments {
        let launches = segment["launches"].as_array().expect("a list");
        assert!(!launches.is_empty());
        for launch in launches {
            assert!(names.contains(launch["row"].as_str().expect("a name")), "{launch}");
        }
    }
    assert_eq!(segments[1]["rows"], 32);
    let text = finish(with_plugins(&["kernels", &model()])).success();
    assert!(text.contains("decode step: 1 row") && text.contains("blk.*"), "{text}");
    assert!(finish(with_plugins(&["kernels"])).success().lines().count() > names.len());
    finish(with_plugins(&["kernels", &model(), "--ctx", "99999"])).failure(1, &["99999", "1024"]);
}

/// Processes whose command line has both words.
fn running(words: [&str; 2]) -> usize {
    let entries = std::fs::read_dir("/proc").expect("a list of processes");
    let lines = entries.filter_map(|entry| std::fs::read(entry.ok()?.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| words.iter().all(|word| line.contains(word))).count()
}

#[test]
fn an_interrupted_check_leaves_no_process_behind() {
    use std::io::{BufRead, BufReader};

    let seed = format!("90000{}", std::process::id());
    let library = plugins().join("libcajeta_backend_reference.so").display().to_string();
    let mut command = bare(&["backends", "check", &library, "--filter", "refAdd", "--seed", &seed]);
    command.env("CAJETA_REFERENCE_LATENCY_US", "600000000").stdout(std::process::Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut heading = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut heading).expect("it begins");
    assert!(heading.contains(&seed), "{heading}");
    assert_eq!(running(["check-worker", &seed]), 1);
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    child.wait().expect("it ends");
    let begun = std::time::Instant::now();
    while running(["check-worker", &seed]) > 0 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "its process runs on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
