//! The suite on the plugins of this workspace, and on plugins that are broken on purpose.
//!
//! Each run is a process of its own, as the reference plugin reads its
//! `CAJETA_REFERENCE_*` variables from the environment.

use std::path::PathBuf;
use std::process::{Command, Output};

use cajeta_conformance::{Expected, Options, Outcome, Report, run};
use cajeta_plugin_host::{Device, open_path};

/// The library of a plugin, beside the test or one folder up.
fn library(name: &str) -> PathBuf {
    let file =
        format!("{}cajeta_backend_{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let here = std::env::current_exe().expect("a test has a path");
    let folders = here.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(&file)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{file} is missing; build it with `cargo build -p cajeta-backend-{name}`"))
}

/// Runs the suite in a process of its own.
fn suite(name: &str, environment: &[(&str, &str)], arguments: &[&str]) -> (Output, Option<Report>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cajeta-conformance"));
    command.arg(library(name)).arg("--json").args(arguments);
    for (variable, _) in std::env::vars().filter(|(name, _)| name.starts_with("CAJETA_REFERENCE_")) {
        command.env_remove(variable);
    }
    command.envs(environment.iter().map(|(name, value)| (format!("CAJETA_REFERENCE_{name}"), value)));
    let output = command.output().expect("the suite runs");
    let report = serde_json::from_slice(&output.stdout).ok();
    (output, report)
}

fn passes(name: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Report {
    let (output, report) = suite(name, environment, arguments);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = report.unwrap_or_else(|| panic!("no report, {}: {words}", output.status));
    let failures: Vec<_> = report.failures().collect();
    assert!(failures.is_empty() && output.status.success(), "{failures:#?} {words}");
    report
}

/// What failed on a defective device; something must.
fn fails(environment: &[(&str, &str)]) -> Vec<(String, String)> {
    let (output, report) = suite("reference", environment, &["--cases", "3"]);
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = report.unwrap_or_else(|| panic!("no report, {}: {words}", output.status));
    assert_eq!(output.status.code(), Some(1), "{environment:?} passes the suite");
    report.failures().map(|(name, why)| (name.to_owned(), why.to_owned())).collect()
}

#[test]
fn the_reference_backend_conforms() {
    let report = passes("reference", &[], &["--cases", "8", "--seed", "11"]);
    assert!(report.rows.len() > 150, "{} rows", report.rows.len());
    assert!(report.rows.iter().all(|row| row.outcome == Outcome::Passed), "every row runs");
}

#[test]
fn the_cpu_backend_conforms() {
    passes("cpu", &[], &["--cases", "8"]);
}

#[test]
fn awkward_devices_conform() {
    passes("reference", &[("LATENCY_US", "300"), ("ROWS", "all")], &["--cases", "2"]);
    passes("reference", &[("ALIGNMENT", "64"), ("LARGEST_BINDING", "65536")], &[]);
    passes("reference", &[("MAP", "1"), ("IMPORT", "1"), ("MEMORY_MB", "64")], &["--cases", "2"]);
}

#[test]
fn wrong_results_and_stray_writes_are_found() {
    for (fault, trace) in [
        ("off_by_one", "expected"),
        ("writes_past_end", "past the end"),
        ("writes_input", "an input was changed"),
        ("leaves_unwritten", "nothing was written there"),
    ] {
        let found = fails(&[("FAULT", fault)]);
        let row = |part: &str| found.iter().any(|(name, why)| name.contains(part) && why.contains(trace));
        for part in ["MatMul", "Norm", "Attention", "Relayout", "PackColumns"] {
            assert!(row(part), "{fault} on {part} rows: {found:#?}");
        }
    }
}

#[test]
fn attributes_that_are_not_honoured_are_found() {
    let found = fails(&[("FAULT", "forgets_attributes")]);
    for part in ["Embed", "Norm", "MatMul", "RopeAppendHalves", "RopeAppendPairs", "GluGelu", "Attention"] {
        assert!(found.iter().any(|(name, _)| name.contains(part)), "{part}: {found:#?}");
    }
    assert!(!found.iter().any(|(name, _)| name.contains("GluSilu")), "{found:#?}");
}

#[test]
fn broken_conduct_is_found() {
    for (fault, check) in [
        ("ignores_poison", "fresh memory is poisoned when asked"),
        ("skips_resubmission", "a list runs as often as it is submitted"),
        ("trusts_sizes", "launches that break their row are refused"),
    ] {
        let found = fails(&[("FAULT", fault)]);
        assert!(found.iter().any(|(name, _)| name == check), "{fault}: {found:#?}");
    }
}

#[test]
fn a_lost_device_ends_the_suite_with_its_reason() {
    let found = fails(&[("LOSE_AFTER", "5")]);
    assert!(found.iter().any(|(_, why)| why.contains("device lost") && why.contains("ref")), "{found:#?}");
}

fn reference() -> Device {
    let backend = open_path(&library("reference"), None).unwrap_or_else(|refusal| panic!("{refusal:?}"));
    backend.open(0).expect("the reference device opens")
}

#[test]
fn an_expected_failure_that_passes_fails() {
    let expected = Expected { row: "refNormRow".to_owned(), reason: "tracked".to_owned() };
    let options =
        Options { filter: Some("refNorm".to_owned()), expected: vec![expected], ..Options::default() };
    let report = run(&reference(), &options);
    assert!(!report.passed());
    let failures: Vec<_> = report.failures().collect();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(failures[0].0 == "refNormRow" && failures[0].1.contains("tracked"), "{failures:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let options = Options { filter: Some("refMatMul".to_owned()), cases: 3, ..Options::default() };
    let device = reference();
    assert_eq!(run(&device, &options), run(&device, &options));
}
