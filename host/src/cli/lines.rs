//! Lines of a conversation: from an editor with history at a terminal, else from standard input as it is.

use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;

use super::failure::{Failure, Outcome};

/// Longest line taken, so that input without line breaks cannot fill the memory.
const MAX_LINE: u64 = 16 << 20;

/// What came.
pub(crate) enum Line {
    /// A line without its end.
    Text(String),
    /// Ctrl-C at the prompt: the line is dropped.
    Cancelled,
    /// There is no more.
    End,
}

/// Where lines come from.
pub(crate) enum Lines {
    /// A terminal.
    Terminal(Box<Editor>),
    /// A pipe or file.
    Pipe,
}

/// The line editor and where its history is kept.
pub(crate) struct Editor {
    editor: DefaultEditor,
    history: Option<PathBuf>,
}

impl Lines {
    /// Lines of standard input.
    pub(crate) fn open() -> Outcome<Lines> {
        if !io::stdin().is_terminal() {
            return Ok(Lines::Pipe);
        }
        let mut editor = DefaultEditor::new()?;
        let history = history_file();
        if let Some(file) = &history {
            // Before the first conversation there is none.
            let _ = editor.load_history(file);
        }
        Ok(Lines::Terminal(Box::new(Editor { editor, history })))
    }

    /// Whether a person types them.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Lines::Terminal(_))
    }

    /// The next line.
    pub(crate) fn next(&mut self) -> Outcome<Line> {
        match self {
            Lines::Terminal(editor) => editor.next(),
            Lines::Pipe => piped(&mut io::stdin().lock()),
        }
    }
}

impl Editor {
    fn next(&mut self) -> Outcome<Line> {
        match self.editor.readline("> ") {
            Ok(line) => {
                self.remember(&line);
                Ok(Line::Text(line))
            }
            Err(ReadlineError::Interrupted) => Ok(Line::Cancelled),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(error.into()),
        }
    }

    /// Keeps a line for later conversations. One that cannot be kept is no reason to stop talking.
    fn remember(&mut self, line: &str) {
        if line.trim().is_empty() || !self.editor.add_history_entry(line).unwrap_or(false) {
            return;
        }
        if let Some(file) = &self.history {
            if let Some(folder) = file.parent() {
                let _ = std::fs::create_dir_all(folder);
            }
            if let Err(error) = self.editor.append_history(file) {
                tracing::info!(file = %file.display(), %error, "the history was not kept");
            }
        }
    }
}

fn piped(input: &mut impl BufRead) -> Outcome<Line> {
    let mut bytes = Vec::new();
    let read = io::Read::take(&mut *input, MAX_LINE).read_until(b'\n', &mut bytes);
    let read = read.map_err(|error| Failure::work(format!("cannot read standard input: {error}")))?;
    if read == 0 {
        return Ok(Line::End);
    }
    if bytes.len() as u64 == MAX_LINE && !bytes.ends_with(b"\n") {
        return Err(Failure::work(format!("a line of standard input has more than {MAX_LINE} bytes")));
    }
    let line = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        Failure::work(format!("a line of standard input is not UTF-8 at its byte {offset}"))
    })?;
    Ok(Line::Text(line))
}

/// `chat_history` in the folder for a user's state.
fn history_file() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")));
    state.map(|state| state.join("cajeta").join("chat_history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn piped_lines_end_with_the_input() {
        let mut input = io::Cursor::new(b"a\nb".to_vec());
        let mut texts = Vec::new();
        while let Line::Text(text) = piped(&mut input).expect("reads") {
            texts.push(text);
        }
        assert_eq!(texts, ["a\n", "b"]);
        assert!(piped(&mut io::Cursor::new(b"\xff\n".to_vec())).is_err());
    }
}
