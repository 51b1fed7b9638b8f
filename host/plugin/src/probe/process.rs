//! A child process that runs a plugin in this one's place: it reports in lines, is watched for silence, and
//! ends with everything it started.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use super::report::REPORT_BYTES_MAX;
use crate::printable;

/// Bytes of the end of the plugin's own output that are kept.
const WORDS_MAX: usize = 16 << 10;
/// How often a silent process is looked at.
const GLANCE: Duration = Duration::from_millis(5);
/// How long output is waited for after the process is gone: a grandchild may hold the pipe open.
const GRACE: Duration = Duration::from_millis(500);
/// Lines that wait to be heard; the process waits when there are more.
const LINES_MAX: usize = 64;

/// What is heard of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// A line of its report, without its end.
    Line(Vec<u8>),
    /// Nothing for as long as it was given.
    Silence,
    /// It is gone.
    Ended {
        /// How, as a clause: `died of signal 11 (SIGSEGV: …)`.
        how: String,
        /// Its last words, as the end of a sentence; empty when it said nothing.
        said: String,
        /// Exit status 0.
        success: bool,
    },
}

/// A running child.
#[derive(Debug)]
pub struct Process {
    child: Child,
    lines: Receiver<Vec<u8>>,
    words: Receiver<Vec<u8>>,
    ended: bool,
}

impl Process {
    /// Starts a program whose standard output is a report of lines. What else it writes goes to its standard
    /// error (see [`super::set_report_apart`]), of which the end is kept; `shown` hears it as it comes.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(
        mut command: Command,
        shown: impl FnMut(&[u8]) + Send + 'static,
    ) -> std::io::Result<Process> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A panic's message is wanted, not its pages.
        command.env("RUST_BACKTRACE", "0");
        // A group of its own, so that what the plugin starts ends with it.
        command.process_group(0);
        let mut child = command.spawn()?;
        let words = collect(child.stderr.take(), shown);
        let (sender, lines) = sync_channel(LINES_MAX);
        let report = child.stdout.take();
        std::thread::spawn(move || report.map(|report| pass_on(report, &sender)));
        Ok(Process { child, lines, words, ended: false })
    }

    /// Waits for the next of it. After [`Heard::Ended`] nothing more is heard.
    pub fn next(&mut self, limit: Duration) -> Heard {
        let deadline = Instant::now() + limit;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let closed = match self.lines.recv_timeout(left.min(GLANCE)) {
                Ok(line) => return Heard::Line(line),
                Err(error) => error == RecvTimeoutError::Disconnected,
            };
            match self.child.try_wait() {
                Ok(None) if left.is_zero() => return Heard::Silence,
                // Its report is closed, and it is about to go: drivers take their time.
                Ok(None) if closed => std::thread::sleep(GLANCE),
                Ok(None) => {}
                // What it wrote before it went comes first.
                Ok(Some(_)) | Err(_) => match self.lines.recv_timeout(GRACE) {
                    Ok(line) => return Heard::Line(line),
                    Err(_) => return self.gone(),
                },
            }
        }
    }

    /// Ends it and whatever it started; its last words, as the end of a sentence.
    pub fn end(mut self) -> String {
        self.kill();
        self.last_words()
    }

    fn gone(&mut self) -> Heard {
        let status = self.child.try_wait().ok().flatten();
        self.kill();
        let how = status.map_or_else(|| "ended in a way the system does not say".to_owned(), cause);
        let success = status.is_some_and(|status| status.success());
        Heard::Ended { how, said: self.last_words(), success }
    }

    fn last_words(&self) -> String {
        last_line(&self.words.recv_timeout(GRACE).unwrap_or_default())
    }

    fn kill(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if let Ok(group) = libc::pid_t::try_from(self.child.id()) {
            // SAFETY: takes numbers only. The group was made for this child; where nothing of it is left
            // the call answers an error that means nothing here.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends each line on, as long as they are of a sane length and somebody listens.
fn pass_on(report: impl Read, to: &SyncSender<Vec<u8>>) {
    let mut report = BufReader::new(report);
    loop {
        let mut line = Vec::new();
        let read = report.by_ref().take(REPORT_BYTES_MAX).read_until(b'\n', &mut line);
        // A last line without an end is one that was cut short.
        if !matches!(read, Ok(count) if count > 0) || line.pop() != Some(b'\n') || to.send(line).is_err() {
            return;
        }
    }
}

/// Reads a pipe to its end on a thread of its own, keeping its last bytes.
fn collect(
    pipe: Option<impl Read + Send + 'static>,
    mut shown: impl FnMut(&[u8]) + Send + 'static,
) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        let mut block = [0; 4096];
        let mut pipe = pipe;
        while let Some(Ok(count)) = pipe.as_mut().map(|pipe| pipe.read(&mut block)) {
            let read = block.get(..count).unwrap_or(&[]);
            if read.is_empty() {
                break;
            }
            shown(read);
            kept.extend_from_slice(read);
            if kept.len() > 2 * WORDS_MAX {
                kept.drain(..kept.len() - WORDS_MAX);
            }
        }
        // Nobody waits any more when the grace is over.
        let _ = sender.send(kept);
    });
    receiver
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
    let mut messages = lines.windows(2).filter(|pair| pair[0].contains("panicked at ")).map(|pair| pair[1]);
    // The last one: a process may have survived others. What a boundary adds to it tells nothing.
    let panic = messages.rfind(|message| !message.contains("cannot unwind"));
    let told = panic.or(lines.last().copied());
    told.map_or(String::new(), |line| format!("; its last words: {}", printable::line(line, 300)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(30);

    fn shell(script: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start(command, |_| ()).expect("a shell starts")
    }

    fn line(text: &str) -> Heard {
        Heard::Line(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_come_as_they_are_written_and_the_end_last() {
        let mut process = shell("echo one; echo two; echo oops >&2; printf three; exit 3");
        assert_eq!(process.next(SOON), line("one"));
        assert_eq!(process.next(SOON), line("two"));
        let (how, said) = ("ended the process with exit code 3".into(), "; its last words: oops".into());
        assert_eq!(process.next(SOON), Heard::Ended { how, said, success: false }, "a cut line is none");
        let mut process = shell("exit 0");
        assert!(matches!(process.next(SOON), Heard::Ended { success: true, .. }));
    }

    #[test]
    fn a_signal_is_named() {
        let mut process = shell("echo here; kill -SEGV $$");
        assert_eq!(process.next(SOON), line("here"));
        let Heard::Ended { how, success: false, .. } = process.next(SOON) else { panic!("it is gone") };
        assert!(how.contains("signal 11 (SIGSEGV"), "{how}");
    }

    #[test]
    fn silence_is_heard_in_time_and_ends_with_all_that_was_started() {
        let begun = Instant::now();
        let mut process = shell("echo here; echo waiting >&2; sleep 600 & echo $!; sleep 600");
        assert_eq!(process.next(SOON), line("here"));
        let Heard::Line(inner) = process.next(SOON) else { panic!("its number") };
        assert_eq!(process.next(Duration::from_millis(50)), Heard::Silence);
        assert_eq!(process.end(), "; its last words: waiting");
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        let inner = String::from_utf8(inner).expect("a number");
        let state = || std::fs::read_to_string(format!("/proc/{inner}/stat")).unwrap_or_default();
        // Killed at once; whoever adopts it may take a moment to wait for it.
        let dead = || state().is_empty() || state().contains(") Z ") || state().contains(") X ");
        while !dead() && begun.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(dead(), "{}", state());
    }

    #[test]
    fn whoever_holds_the_pipe_open_keeps_nobody_waiting() {
        let begun = Instant::now();
        let mut process = shell("sleep 600 & exit 0");
        assert!(matches!(process.next(SOON), Heard::Ended { success: true, .. }));
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_report_without_end_is_cut() {
        let mut process = shell("yes | tr -d '\\n'");
        let heard = process.next(SOON);
        assert!(matches!(heard, Heard::Ended { .. } | Heard::Silence), "{heard:?}");
    }

    #[test]
    fn the_last_line_that_tells_something_is_kept() {
        let words =
            b"starting\nthread 'main' panicked at a.rs:1:\nno such card\nnote: run with more\nstack:\n1: a\n";
        assert_eq!(last_line(words), "; its last words: no such card");
        let twice = b"panicked at a:1:\nfirst\npanicked at b:2:\nsecond\npanicked at c:3:\npanic in a function that cannot unwind\n";
        assert_eq!(last_line(twice), "; its last words: second");
        assert_eq!(last_line(b"one\ntwo\n"), "; its last words: two");
        assert_eq!(last_line(b" \n\n"), "");
    }

    #[test]
    fn causes_name_the_signal_or_the_code() {
        assert!(cause(ExitStatus::from_raw(libc::SIGABRT)).contains("signal 6 (SIGABRT"));
        assert!(cause(ExitStatus::from_raw(3 << 8)).contains("exit code 3"));
    }
}
