//! Where words go: results to standard output, everything about them to standard error.

use std::borrow::Cow;
use std::io::{self, ErrorKind, IsTerminal, Write};

use serde::Serialize;

use super::failure::{Failure, Outcome};

/// Writes text to standard output, at once.
pub(crate) fn text(text: &str) -> Outcome {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(closed)
}

/// Writes a line to standard output, at once.
pub(crate) fn line(line: &str) -> Outcome {
    text(&format!("{line}\n"))
}

/// Writes a value to standard output as one line of JSON.
pub(crate) fn json(value: &impl Serialize) -> Outcome {
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer(&mut stdout, value).map_err(io::Error::from).map_err(closed)?;
    stdout.write_all(b"\n").and_then(|()| stdout.flush()).map_err(closed)
}

/// Writes lines to standard error, without characters that would steer a terminal: names of files and
/// devices can hold any. Nobody is told when that fails: there is nowhere left to say it.
pub(crate) fn note(lines: &str) {
    painted_note(&visible(lines));
}

/// Writes lines that may be coloured, and hold nothing from outside, to standard error.
pub(crate) fn painted_note(lines: &str) {
    let _ = writeln!(io::stderr().lock(), "{lines}");
}

/// Writes a part of an answer to standard output, at once: as it is to a file or a program, and to a
/// terminal without the characters that would steer it.
pub(crate) fn piece(piece: &str) -> Outcome {
    if to_terminal() { text(&visible(piece)) } else { text(piece) }
}

/// Whether standard output is a terminal.
pub(crate) fn to_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Text whose control characters, lines and tabs apart, are replaced: models and files can say anything.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains(steers) { Cow::Owned(text.replace(steers, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

fn closed(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::work(format!("cannot write to standard output: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_steer_a_terminal() {
        assert_eq!(visible("a\n\tb é"), "a\n\tb é");
        assert_eq!(visible("a\u{1b}[2J\u{9b}b\r"), "a\u{fffd}[2J\u{fffd}b\u{fffd}");
    }
}
