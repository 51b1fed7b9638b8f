//! `cajeta backends check`: runs every kernel a plugin claims and compares with the oracles. The plugin is
//! called in a process of its own, so that a kernel which crashes or hangs fails its check and no other.

use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cajeta_conformance::{Apart, ApartError, Heard, Options as Suite, Report, run_apart, worker};
use clap::Args;

use super::failure::{Failure, Outcome};
use super::output;

/// What was typed.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// A plugin's library, its manifest, or a folder that holds one manifest
    path: PathBuf,
    /// Run only rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Random problems per row; the first ones are edge shapes
    #[arg(long, value_name = "N", default_value_t = Suite::default().cases, value_parser = clap::value_parser!(u32).range(1..))]
    cases: u32,
    /// Repeats a run exactly
    #[arg(long, value_name = "N", default_value_t = Suite::default().seed)]
    seed: u64,
    /// Check the device at this position
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// How long one problem of a row, or one other check, may take before it counts as hung
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    timeout: Duration,
    /// Print every row's result as JSON, at the end
    #[arg(long)]
    json: bool,
}

/// What the process that calls the plugin is given; nobody types it.
#[derive(Args, Debug)]
pub(crate) struct WorkerFlags {
    #[arg(num_args = 2)]
    task: Vec<OsString>,
}

/// A positive number of seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let limit = seconds.filter(|limit| !limit.is_zero() && *limit <= Duration::from_secs(86_400));
    limit.ok_or_else(|| "expected seconds, more than 0 and at most 86400".to_owned())
}

/// Checks the plugin; a row that is wrong is a failure.
pub(crate) fn run(flags: Flags) -> Outcome {
    let suite = Suite { seed: flags.seed, cases: flags.cases, filter: flags.filter, ..Suite::default() };
    let apart = Apart {
        program: std::env::current_exe()?,
        arguments: ["backends", "check-worker"].map(OsString::from).to_vec(),
        limit: flags.timeout,
        shown,
    };
    let mut printed = Ok(());
    let mut width = 0;
    let report = run_apart(&apart, &flags.path, flags.device, &suite, &mut |heard| {
        let line = match heard {
            Heard::Begun(report, longest) => {
                width = longest;
                report.heading()
            }
            Heard::Found(finding) => finding.line(width),
        };
        if !flags.json {
            printed = output::line(&output::visible(&line));
        }
        if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    let report = report.map_err(|error| match error {
        ApartError::Died(how) => Failure::work(format!("{}: {how}", flags.path.display())),
        refused => Failure::work(refused),
    })?;
    printed?;
    if flags.json {
        output::json(&report)?;
    } else {
        output::line(&report.summary())?;
    }
    verdict(&report, suite.filter.as_deref())
}

/// Runs the process that calls the plugin.
pub(crate) fn work(flags: WorkerFlags) -> Outcome {
    match worker(flags.task.into_iter()) {
        ExitCode::SUCCESS => Ok(()),
        _ => Err(Failure::usage("check-worker is what `backends check` starts, and not to be typed")),
    }
}

/// What the plugin writes for its author.
fn shown(words: &[u8]) {
    let words = String::from_utf8_lossy(words);
    // When this cannot be written there is nowhere left to say it.
    let _ = std::io::stderr().lock().write_all(output::visible(&words).as_bytes());
}

fn verdict(report: &Report, filter: Option<&str>) -> Outcome {
    let name = report.backend.as_str();
    if let (Some(filter), true) = (filter, report.rows.is_empty()) {
        return Err(Failure::work(format!("no row of backend `{name}` has {filter:?} in its name")));
    }
    if report.passed() {
        return Ok(());
    }
    Err(match (report.failures().count(), report.failures().next()) {
        (1, Some((row, why))) => Failure::work(format!("backend `{name}` failed a check: {row}: {why}")),
        (count, Some((row, why))) => {
            Failure::work(format!("backend `{name}` failed {count} checks, the first {row}: {why}"))
        }
        (_, None) => Failure::work(format!("nothing of backend `{name}` could be checked on this device")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_positive_time() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for text in ["", "0", "-1", "1e9", "inf", "NaN", "1 s"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}
