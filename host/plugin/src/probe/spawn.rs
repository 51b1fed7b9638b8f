//! Runs the probing process, watches its time, and says why it ended.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::report::{Line, REPORT_BYTES_MAX, Report};
use super::{PROGRAM, ProbeOptions, Success};
use crate::candidate::{Refusal, Stage};
use crate::manifest::PluginManifest;
use crate::printable;

/// Bytes of the end of the plugin's own output that are kept.
const WORDS_MAX: usize = 16 << 10;
/// How often a running probe is looked at.
const GLANCE: Duration = Duration::from_millis(2);
/// How long output is waited for after the process is gone: a grandchild may hold the pipe open.
const GRACE: Duration = Duration::from_millis(500);

/// Probes the library in a child process.
///
/// # Errors
/// See [`super::probe`].
pub(super) fn run(
    library: &Path,
    manifest: Option<&PluginManifest>,
    options: &ProbeOptions,
) -> Result<Success, Refusal> {
    let begun = Instant::now();
    let mut child = start(library, manifest, options)?;
    let report = collect(child.stdout.take(), REPORT_BYTES_MAX as usize, false);
    let words = collect(child.stderr.take(), WORDS_MAX, true);
    let ended = watch(&mut child, begun + options.time_limit);
    let report = Report::read(&report.recv_timeout(GRACE).unwrap_or_default());
    let words = words.recv_timeout(GRACE).unwrap_or_default();
    let said = last_line(&words);
    let status = match ended {
        Ended::With(status) => status,
        Ended::TimedOut => {
            let seconds = options.time_limit.as_secs_f64();
            let reason = format!("no answer within {seconds} s while in stage {}{said}", report.stage);
            let remedy = format!("raise the limit with {}, or update the driver", super::TIME_LIMIT);
            return Err(Refusal::new(report.stage, reason, remedy));
        }
        Ended::Unknown(error) => {
            return Err(Refusal::new(Stage::Probe, format!("waiting for {PROGRAM} failed: {error}"), ""));
        }
    };
    if !status.success() || report.verdict.is_none() {
        let remedy = "update the driver; if it stays, report this to the plugin's author";
        return Err(Refusal::new(
            report.stage,
            format!("{} in stage {}{said}", cause(status), report.stage),
            remedy,
        ));
    }
    match report.verdict {
        Some(Line::Usable { devices, kernel }) => {
            Ok(Success { devices, kernel, cached: false, took: begun.elapsed() })
        }
        Some(Line::Refused(refusal)) => Err(clean(refusal)),
        Some(Line::Stage(_)) | None => {
            Err(Refusal::new(report.stage, format!("{PROGRAM} came to no verdict"), ""))
        }
    }
}

fn start(
    library: &Path,
    manifest: Option<&PluginManifest>,
    options: &ProbeOptions,
) -> Result<Child, Refusal> {
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
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A panic's message is wanted, not its pages.
    command.env("RUST_BACKTRACE", "0");
    // A group of its own, so that what the plugin starts ends with it.
    command.process_group(0);
    command.spawn().map_err(|error| {
        Refusal::new(
            Stage::Probe,
            format!("{} does not start: {error}", program.display()),
            "reinstall the host package",
        )
    })
}

/// Reads a pipe to its end on a thread of its own, keeping the first or the last `limit` bytes.
fn collect(pipe: Option<impl Read + Send + 'static>, limit: usize, keep_end: bool) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let mut block = [0; 4096];
        let mut pipe = pipe;
        while let Some(Ok(count)) = pipe.as_mut().map(|pipe| pipe.read(&mut block)) {
            if count == 0 {
                break;
            }
            if keep_end || kept.len() < limit {
                kept.extend_from_slice(&block[..count]);
            }
            if keep_end && kept.len() > 2 * limit {
                kept.drain(..kept.len() - limit);
            }
        }
        // Nobody waits any more when the grace is over.
        let _ = sender.send(kept);
    });
    receiver
}

enum Ended {
    With(ExitStatus),
    TimedOut,
    Unknown(std::io::Error),
}

/// Waits for the process until `deadline`; then, or when it is gone, ends its whole group.
fn watch(child: &mut Child, deadline: Instant) -> Ended {
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ended::With(status),
            Ok(None) if Instant::now() >= deadline => break Ended::TimedOut,
            Ok(None) => std::thread::sleep(GLANCE),
            Err(error) => break Ended::Unknown(error),
        }
    };
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: takes numbers only. The group was made for this child; where nothing of it is left
        // the call answers an error that means nothing here.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    if !matches!(ended, Ended::With(_)) {
        let _ = child.wait();
    }
    ended
}

fn cause(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("died of signal {signal} ({})", signal_name(signal)),
        (None, Some(code)) => format!("ended the process with exit code {code}"),
        (None, None) => "ended for a reason the system does not say".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => "SIGABRT: it aborted",
        libc::SIGSEGV => "SIGSEGV: it touched memory that is not there",
        libc::SIGBUS => "SIGBUS: it touched memory that is not there",
        libc::SIGILL => "SIGILL: an instruction this processor lacks",
        libc::SIGFPE => "SIGFPE: a division by zero",
        libc::SIGKILL => "SIGKILL: killed, perhaps for memory",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGTERM => "SIGTERM",
        libc::SIGSYS => "SIGSYS: a system call that is not allowed",
        _ => "see signal(7)",
    }
}

/// What the process wrote that tells most, as the end of a sentence: the message of a Rust panic, which
/// pages of its own advice may follow, else the last line.
fn last_line(words: &[u8]) -> String {
    let text = String::from_utf8_lossy(words);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let panic = lines.iter().position(|line| line.contains("panicked at "));
    let told = panic.and_then(|at| lines.get(at + 1)).or(lines.last());
    told.map_or(String::new(), |line| format!("; its last words: {}", printable::line(line, 300)))
}

/// The process runs foreign code: its text is made fit for a terminal like the plugin's own.
fn clean(refusal: Refusal) -> Refusal {
    let (reason, remedy) = (printable::line(&refusal.reason, 2000), printable::line(&refusal.remedy, 500));
    Refusal { orderly: true, ..Refusal::new(refusal.stage, reason, remedy) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_tells_something_is_kept() {
        let words =
            b"starting\nthread 'main' panicked at a.rs:1:\nno such card\nnote: run with more\nstack:\n1: a\n";
        assert_eq!(last_line(words), "; its last words: no such card");
        assert_eq!(last_line(b"one\ntwo\n"), "; its last words: two");
        assert_eq!(last_line(b" \n\n"), "");
    }

    #[test]
    fn causes_name_the_signal_or_the_code() {
        assert!(cause(ExitStatus::from_raw(libc::SIGABRT)).contains("signal 6 (SIGABRT"));
        assert!(cause(ExitStatus::from_raw(3 << 8)).contains("exit code 3"));
    }
}
