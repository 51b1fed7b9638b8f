//! `cargo xtask test`: everything that must hold, on this machine, in one command.

use std::process::Command;

use crate::failure::{Failure, Outcome};
use crate::libtest;
use crate::model;
use crate::nextest;
use crate::process;
use crate::scope::Scope;
use crate::tally::Tally;
use crate::tidy;
use crate::workspace::Workspace;

/// Targets that the build step and the test step name alike, so that each crate compiles once.
const TARGETS: [&str; 3] = ["--lib", "--bins", "--tests"];

/// Every test, doc test and check.
pub(crate) fn everything(workspace: &Workspace) -> Outcome<()> {
    let mut tally = Tally::default();
    let environment = Environment::prepare(workspace, &mut tally);
    let scope = Scope::of_machine(workspace, &mut tally);
    build(workspace, &scope)?;
    run_tests(workspace, &scope, &environment, None, &mut tally)?;
    run_doc_tests(workspace, &scope, &environment, &mut tally)?;
    heading("tidy");
    tally.add(tidy::check(workspace)?);
    heading("format, lints, licences");
    let mut format = workspace.cargo(&["fmt"]);
    format.args(["--all", "--check"]);
    check_tool(workspace, "format", "fmt", format, &mut tally);
    let mut lints = workspace.cargo(&["clippy"]);
    scope.apply(&mut lints);
    lints.args(["--all-targets", "--keep-going", "--", "--deny", "warnings"]);
    check_tool(workspace, "lints", "clippy", lints, &mut tally);
    let mut licences = workspace.cargo(&["deny", "check", "--hide-inclusion-graph"]);
    licences.args(["bans", "licenses", "sources"]);
    check_tool(workspace, "licences and sources", "deny", licences, &mut tally);
    // Fetching apart from checking tells an unreachable database from a known defect.
    if process::answers(workspace.cargo(&["deny", "fetch", "db"])) {
        let advisories = workspace.cargo(&["deny", "check", "advisories"]);
        check_tool(workspace, "advisories", "deny", advisories, &mut tally);
    } else {
        tally.skip("advisories", "needs `cargo deny` and its advisory database");
    }
    conclude(&tally)
}

/// Only the tests whose name contains `filter`; no other checks.
pub(crate) fn matching(workspace: &Workspace, filter: &str) -> Outcome<()> {
    let mut tally = Tally::default();
    let environment = Environment::prepare(workspace, &mut tally);
    let scope = Scope::of_machine(workspace, &mut tally);
    build(workspace, &scope)?;
    let skipped_before = tally.skipped.len();
    run_tests(workspace, &scope, &environment, Some(filter), &mut tally)?;
    if tally.passed + tally.failed.len() + tally.skipped.len() == skipped_before {
        return Err(Failure::work(format!(
            "no test has `{filter}` in its name; `cargo xtask test --list` shows all"
        )));
    }
    conclude(&tally)
}

/// Names of all tests.
pub(crate) fn list(workspace: &Workspace) -> Outcome<()> {
    let mut listing = workspace.cargo(&["test"]);
    Scope::of_machine(workspace, &mut Tally::default()).apply(&mut listing);
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
        match model::gemma3(workspace) {
            Ok(path) => variables.push(("CAJETA_GEMMA3", path)),
            Err(failure) => tally.skip("Gemma 3 model", &format!("could not be fetched: {failure}")),
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
fn build(workspace: &Workspace, scope: &Scope) -> Outcome<()> {
    heading("build");
    let mut build = workspace.cargo(&["build"]);
    scope.apply(&mut build);
    build.args(TARGETS).arg("--examples");
    process::run(build)
}

fn run_tests(
    workspace: &Workspace,
    scope: &Scope,
    environment: &Environment,
    filter: Option<&str>,
    tally: &mut Tally,
) -> Outcome<()> {
    heading("tests");
    if process::answers(workspace.cargo(&["nextest", "--version"])) {
        run_nextest(workspace, scope, environment, filter, tally)
    } else {
        eprintln!("cargo-nextest is not installed; `cargo test` runs the same tests");
        let mut command = workspace.cargo(&["test", "--no-fail-fast"]);
        scope.apply(&mut command);
        command.args(TARGETS).args(filter).args(["--", "--show-output"]);
        run_libtest(command, "cargo test", environment, tally)
    }
}

fn run_nextest(
    workspace: &Workspace,
    scope: &Scope,
    environment: &Environment,
    filter: Option<&str>,
    tally: &mut Tally,
) -> Outcome<()> {
    let report = workspace.target().join("nextest/default/junit.xml");
    let _ = std::fs::remove_file(&report);
    let mut command = workspace.cargo(&["nextest", "run", "--no-fail-fast", "--no-tests", "pass"]);
    scope.apply(&mut command);
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

fn run_doc_tests(
    workspace: &Workspace,
    scope: &Scope,
    environment: &Environment,
    tally: &mut Tally,
) -> Outcome<()> {
    heading("doc tests");
    let mut command = workspace.cargo(&["test", "--doc", "--no-fail-fast"]);
    scope.apply(&mut command);
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

/// Runs a command of a cargo tool as one check, or skips it by name where the tool is not installed.
fn check_tool(workspace: &Workspace, name: &str, tool: &str, command: Command, tally: &mut Tally) {
    if process::answers(workspace.cargo(&[tool, "--version"])) {
        tally.check(name, process::run(command).is_ok());
    } else {
        tally.skip(name, &format!("`cargo {tool}` is not installed"));
    }
}
