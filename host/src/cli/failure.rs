//! How a command ends when it does not succeed, and what the shell is told.

use std::io::Write;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use cajeta_plugin_host::printable;

use super::colour::{self, painted};

/// Why a command did not succeed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line does not say what to do. Exit 2.
    Usage(String),
    /// It could not be done. Exit 1.
    Work(String),
    /// The user stopped it; what there was has been printed. Exit 130, as shells have it for SIGINT.
    Interrupted,
    /// Whoever read standard output has gone. That is their choice, not a failure: exit 0, in silence.
    OutputClosed,
}

/// What a command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// A mistake in the command line.
    pub(crate) fn usage(sentence: impl std::fmt::Display) -> Failure {
        Failure::Usage(sentence.to_string())
    }

    /// Something that could not be done.
    pub(crate) fn work(sentence: impl std::fmt::Display) -> Failure {
        Failure::Work(sentence.to_string())
    }

    fn code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Work(_) => 1,
            Failure::Interrupted => 130,
            Failure::OutputClosed => 0,
        }
    }
}

/// Every error of the layers below is a sentence about something that could not be done.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::work(error)
    }
}

/// Says why, if there is something to say, and gives the exit status.
pub(crate) fn report(outcome: Outcome) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    if let Failure::Usage(sentence) | Failure::Work(sentence) = &failure {
        // When even this cannot be written, the exit status says it alone.
        let name = painted("cajeta:", colour::FAILURE, colour::on_stderr());
        let _ = writeln!(std::io::stderr().lock(), "{name} {}", one_sentence(sentence));
    }
    ExitCode::from(failure.code())
}

/// Runs a command so that a defect of the program ends it as a failure with one sentence.
pub(crate) fn guarded(command: impl FnOnce() -> Outcome) -> Outcome {
    // The standard report is a trace of several lines; its gist goes into the one sentence instead.
    static GIST: Mutex<String> = Mutex::new(String::new());
    let gist = || GIST.lock().unwrap_or_else(PoisonError::into_inner);
    std::panic::set_hook(Box::new(move |panic| *gist() = panic.to_string()));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(command)).unwrap_or_else(|_| {
        Err(Failure::work(format!(
            "this is a defect of cajeta, please report it with the command you ran: {}",
            gist()
        )))
    })
}

/// A message as one line that is safe to show: line breaks join with `; `, and control characters,
/// which can come from file names and plugins, are spelled out, as are marks that turn text around.
pub(crate) fn one_sentence(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for line in message.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !out.is_empty() {
            out.push_str(if out.ends_with([':', ',', ';']) { " " } else { "; " });
        }
        for c in line.chars() {
            if printable::steers(c) { out.extend(c.escape_default()) } else { out.push(c) }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_one_safe_line() {
        assert_eq!(
            one_sentence("no kernel serves x:\n  a: shape\n  b: format\n"),
            "no kernel serves x: a: shape; b: format"
        );
        assert_eq!(one_sentence("bad\u{1b}[2Jname"), "bad\\u{1b}[2Jname");
        assert_eq!(one_sentence("\n\n"), "");
    }

    #[test]
    fn a_defect_is_a_failure_with_a_sentence() {
        let outcome = guarded(|| panic!("row {} of 3", 5));
        let Err(Failure::Work(sentence)) = outcome else { panic!("{outcome:?}") };
        assert!(sentence.contains("row 5 of 3"), "{sentence}");
        let _ = std::panic::take_hook();
    }
}
