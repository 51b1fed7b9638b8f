//! Runs the probing process, watches its time, and says why it ended.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::process::{Heard, Process};
use super::report::{Line, REPORT_BYTES_MAX, Report};
use super::{Avoided, PROGRAM, ProbeOptions, Success};
use crate::candidate::{Refusal, Stage};
use crate::manifest::PluginManifest;
use crate::printable;

/// What goes before each of the rows that are not to be run.
pub(super) const AVOID: &str = "--avoid";
/// What to do about a plugin that does what none should.
const AUTHOR: &str = "report this to the plugin's author";

/// Probes the library in a child process.
///
/// # Errors
/// See [`super::probe`].
pub(super) fn run(
    library: &Path,
    manifest: Option<&PluginManifest>,
    avoided: &[Avoided],
    options: &ProbeOptions,
) -> Result<Success, Refusal> {
    let begun = Instant::now();
    let deadline = begun + options.time_limit;
    let mut process = start(library, manifest, avoided, options)?;
    let mut report = Vec::new();
    let (how, said, success) = loop {
        match process.next(deadline.saturating_duration_since(Instant::now())) {
            Heard::Line(line) if ((report.len() + line.len()) as u64) < REPORT_BYTES_MAX => {
                report.extend_from_slice(&line);
                report.push(b'\n');
            }
            Heard::Line(_) => {
                let reason = format!("its report is longer than {REPORT_BYTES_MAX} bytes");
                return Err(Refusal::new(Report::read(&report).stage, reason, AUTHOR));
            }
            Heard::Silence => {
                let stage = Report::read(&report).stage;
                let (seconds, said) = (options.time_limit.as_secs_f64(), process.end());
                let reason = format!("no answer within {seconds} s while in stage {stage}{said}");
                let remedy = format!("raise the limit with {}, or update the driver", super::TIME_LIMIT);
                return Err(Refusal::new(stage, reason, remedy));
            }
            Heard::Ended { how, said, success } => break (how, said, success),
        }
    };
    let report = Report::read(&report);
    match report.verdict {
        Some(Line::Usable { devices, kernel }) if success => {
            Ok(Success { devices, kernel, cached: false, took: begun.elapsed() })
        }
        Some(Line::Refused(refusal)) if success => Err(clean(refusal)),
        _ => {
            let reason = format!("{how} in stage {}{said}", report.stage);
            Err(Refusal::new(report.stage, reason, format!("update the driver; if it stays, {AUTHOR}")))
        }
    }
}

fn start(
    library: &Path,
    manifest: Option<&PluginManifest>,
    avoided: &[Avoided],
    options: &ProbeOptions,
) -> Result<Process, Refusal> {
    let Some(program) = &options.program else {
        return Err(Refusal::new(
            Stage::Probe,
            format!("the program {PROGRAM} is not beside the executable, and no plugin is opened untried"),
            "install the whole host package, or set the program's path in ProbeOptions",
        ));
    };
    let mut command = Command::new(program);
    command.arg(library);
    if let Some(manifest) = manifest.and_then(|manifest| manifest.path.as_deref()) {
        command.arg(manifest);
    }
    for rows in avoided {
        let rows = serde_json::to_string(rows).map_err(|error| {
            Refusal::new(Stage::Probe, format!("the rows to avoid cannot be passed on: {error}"), "")
        })?;
        command.arg(AVOID).arg(rows);
    }
    Process::start(command, |_| ()).map_err(|error| {
        Refusal::new(
            Stage::Probe,
            format!("{} does not start: {error}", program.display()),
            "reinstall the host package",
        )
    })
}

/// The process runs foreign code: its text is made fit for a terminal like the plugin's own.
fn clean(refusal: Refusal) -> Refusal {
    let (reason, remedy) = (printable::line(&refusal.reason, 2000), printable::line(&refusal.remedy, 500));
    Refusal { orderly: true, ..Refusal::new(refusal.stage, reason, remedy) }
}
