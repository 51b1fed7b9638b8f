//! `cargo xtask test`: everything that must hold, on this machine, in one command.

use std::process::Command;

use crate::failure::{Failure, Outcome};
use crate::libtest;
use crate::model;
use crate::nextest;
use crate::process;
use crate::tally::Tally;
use crate::tidy;
use crate::workspace::Workspace;

/// Targets that the build step and the test step name alike, so that each crate compiles once.
const TARGETS: [&str; 4] = ["--workspace", "--lib", "--bins", "--tests"];

/// Every test, doc test and check.
pub(crate) fn everything(workspace: &Workspace) -> Outcome<()> {
    let mut tally = Tally::default();
    let environment = Environment::prepare(workspace, &mut tally);
    build(workspace)?;
    run_tests(workspace, &environment, None, &mut tally)?;
    run_doc_tests(workspace, &environment, &mut tally)?;
    heading("tidy");
    tally.add(tidy::check(workspace)?);
    heading("format, lints, licences");
    check_tool(workspace, "format", "fmt", &["--all", "--check"], &mut tally);
    check_tool(
        workspace,
        "lints",
        "clippy",
        &["--workspace", "--all-targets", "--", "--deny", "warnings"],
        &mut tally,
    );
    check_tool(
        workspace,
        "licences and sources",
        "deny",
        &["check", "--hide-inclusion-graph", "bans", "licenses", "sources"],
        &mut tally,
    );
    // Fetching apart from checking tells an unreachable database from a known defect.
    if process::answers(workspace.cargo(&["deny", "fetch", "db"])) {
        check_tool(workspace, "advisories", "deny", &["check", "advisories"], &mut tally);
    } else {
        tally.skip("advisories", "needs `cargo deny` and its advisory database");
    }
    conclude(&tally)
}

/// Only the tests whose name contains `filter`; no other checks.
pub(crate) fn matching(workspace: &Workspace, filter: &str) -> Outcome<()> {
    let mut tally = Tally::default();
    let environment = Environment::prepare(workspace, &mut tally);
    build(workspace)?;
    run_tests(workspace, &environment, Some(filter), &mut tally)?;
    if tally == Tally::default() {
        return Err(Failure::work(format!(
            "no test has `{filter}` in its name; `cargo xtask test --list` shows all"
        )));
    }
    conclude(&tally)
}

/// Names of all tests.
pub(crate) fn list(workspace: &Workspace) -> Outcome<()> {
    let mut listing = workspace.cargo(&["test"]);
    listing.args(TARGETS).args(["--", "--list", "--format", "terse"]);
    process::run(listing)
}

fn conclude(tally: &Tally) -> Outcome<()> {
    heading("summary");
    println!("{}", tally.summary());
    match tally.failed.len() {
        0 => Ok(()),
        count => Err(Failure::work(format!("{count} of the checks above failed"))),
    }
}

fn heading(title: &str) {
    eprintln!("\n== {title}");
}

/// What tests are told through environment variables.
struct Environment(Vec<(&'static str, std::path::PathBuf)>);

impl Environment {
    /// Finds or fetches what tests need. What cannot be had is said now and again in the summary;
    /// the tests that need it skip themselves.
    fn prepare(workspace: &Workspace, tally: &mut Tally) -> Self {
        heading("what the tests need");
        let mut variables = Vec::new();
        match model::smollm2(workspace) {
            Ok(path) => variables.push(("CAJETA_SMOLLM2", path)),
            Err(failure) => tally.skip("SmolLM2 model", &format!("could not be fetched: {failure}")),
        }
        if let Some(shared) = workspace.shared() {
            variables.push(("CAJETA_SHARED", shared));
        }
        for (name, path) in &variables {
            eprintln!("{name}={}", path.display());
        }
        Self(variables)
    }

    fn apply(&self, command: &mut Command) {
        command.envs(self.0.iter().map(|(name, path)| (name, path)));
        // Tests choose backends themselves; a leftover of the caller's shell must not choose for them.
        for name in ["CAJETA_XPU_BACKEND", "CAJETA_PLUGIN_PATH", "CAJETA_PLUGIN_ADD_PATH"] {
            command.env_remove(name);
        }
    }
}

/// Builds binaries and plugin libraries: tests open plugins as files, which no dependency says.
/// The plugins that misbehave are examples, which the test step does not build.
fn build(workspace: &Workspace) -> Outcome<()> {
    heading("build");
    let mut build = workspace.cargo(&["build"]);
    build.args(TARGETS).arg("--examples");
    process::run(build)
}

fn run_tests(
    workspace: &Workspace,
    environment: &Environment,
    filter: Option<&str>,
    tally: &mut Tally,
) -> Outcome<()> {
    heading("tests");
    if process::answers(workspace.cargo(&["nextest", "--version"])) {
        run_nextest(workspace, environment, filter, tally)
    } else {
        eprintln!("cargo-nextest is not installed; `cargo test` runs the same tests");
        let mut command = workspace.cargo(&["test", "--no-fail-fast"]);
        command.args(TARGETS).args(filter).args(["--", "--show-output"]);
        run_libtest(command, "cargo test", environment, tally)
    }
}

fn run_nextest(
    workspace: &Workspace,
    environment: &Environment,
    filter: Option<&str>,
    tally: &mut Tally,
) -> Outcome<()> {
    let report = workspace.target().join("nextest/default/junit.xml");
    let _ = std::fs::remove_file(&report);
    let mut command = workspace.cargo(&["nextest", "run", "--no-fail-fast", "--no-tests", "pass"]);
    command.args(TARGETS).args(filter);
    environment.apply(&mut command);
    let ended = process::run(command);
    let part = match std::fs::read_to_string(&report) {
        Ok(text) => nextest::read_report(&text),
        Err(_) if ended.is_ok() => Tally::default(),
        Err(error) => return Err(Failure::file("read the report", &report, &error)),
    };
    if ended.is_err() && part.failed.is_empty() {
        tally.check("cargo nextest run", false);
    }
    tally.add(part);
    Ok(())
}

fn run_doc_tests(workspace: &Workspace, environment: &Environment, tally: &mut Tally) -> Outcome<()> {
    heading("doc tests");
    let command = workspace.cargo(&["test", "--workspace", "--doc", "--no-fail-fast"]);
    run_libtest(command, "doc tests", environment, tally)
}

fn run_libtest(
    mut command: Command,
    name: &str,
    environment: &Environment,
    tally: &mut Tally,
) -> Outcome<()> {
    environment.apply(&mut command);
    let mut reader = libtest::Reader::default();
    let succeeded = process::run_reading(command, |line| {
        if reader.take(line) {
            println!("{line}");
        }
    })?;
    let part = reader.finish();
    if !succeeded && part.failed.is_empty() {
        // A test binary that died, or one that did not build, prints no result line.
        tally.check(name, false);
    }
    tally.add(part);
    Ok(())
}

/// Runs a cargo tool as one check, or skips it by name where it is not installed.
fn check_tool(workspace: &Workspace, name: &str, tool: &str, arguments: &[&str], tally: &mut Tally) {
    if !process::answers(workspace.cargo(&[tool, "--version"])) {
        tally.skip(name, &format!("`cargo {tool}` is not installed"));
        return;
    }
    let mut command = workspace.cargo(&[tool]);
    command.args(arguments);
    let held = process::run(command);
    tally.check(name, held.is_ok());
}
