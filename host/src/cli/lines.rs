//! Inputs of a conversation: from an editor with history at a terminal, else from standard input as it is.

use std::borrow::Cow;
use std::io::{self, BufRead, IsTerminal};
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, Config, Context, Editor, Helper};

use super::colour::{self, painted};
use super::failure::{Failure, Outcome};
use super::turn::is_open;

/// Longest input taken, so that one without an end cannot fill the memory.
const MAX_BYTES: u64 = 16 << 20;
/// Inputs kept in the history file.
const MAX_HISTORY: usize = 1000;

/// What came.
pub(crate) enum Line {
    /// An input, of one line or several.
    Text(String),
    /// Ctrl-C at the prompt: the input is dropped.
    Cancelled,
    /// There is no more.
    End,
}

/// Where inputs come from.
pub(crate) enum Lines {
    /// A terminal.
    Terminal(Box<Keyboard>),
    /// A pipe or file.
    Pipe,
}

/// The line editor and where its history is kept.
pub(crate) struct Keyboard {
    editor: Editor<Typing, FileHistory>,
    history: Option<PathBuf>,
}

impl Lines {
    /// Inputs from standard input; at a terminal, words out of `commands` are completed.
    pub(crate) fn open(commands: &'static [&'static str]) -> Outcome<Lines> {
        if !io::stdin().is_terminal() {
            return Ok(Lines::Pipe);
        }
        let coloured = colour::on_stdout();
        let mode = if coloured { ColorMode::Enabled } else { ColorMode::Disabled };
        let config = Config::builder().max_history_size(MAX_HISTORY)?.color_mode(mode).build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Typing { commands, coloured }));
        let history = history_file();
        if let Some(file) = &history {
            // Before the first conversation there is none.
            let _ = editor.load_history(file);
        }
        Ok(Lines::Terminal(Box::new(Keyboard { editor, history })))
    }

    /// Whether a person types them.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self, Lines::Terminal(_))
    }

    /// The next input.
    pub(crate) fn next(&mut self) -> Outcome<Line> {
        match self {
            Lines::Terminal(keyboard) => keyboard.next(),
            Lines::Pipe => piped(&mut io::stdin().lock()),
        }
    }
}

impl Keyboard {
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

    /// Keeps an input for later conversations. One that cannot be kept is no reason to stop talking.
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

/// What the editor does while somebody types: goes on while the input is open, completes commands.
struct Typing {
    commands: &'static [&'static str],
    coloured: bool,
}

impl Helper for Typing {}

impl Hinter for Typing {
    type Hint = String;
}

impl Validator for Typing {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let open = is_open(context.input());
        Ok(if open { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl Highlighter for Typing {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _default: bool) -> Cow<'b, str> {
        Cow::Owned(painted(prompt, colour::PROMPT, self.coloured))
    }
}

impl Completer for Typing {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..pos).and_then(|typed| typed.strip_prefix('/'));
        let fitting = self.commands.iter().filter(|name| typed.is_some_and(|typed| name.starts_with(typed)));
        Ok((0, fitting.map(|name| format!("/{name} ")).collect()))
    }
}

fn piped(input: &mut impl BufRead) -> Outcome<Line> {
    let mut bytes = Vec::new();
    let mut text = String::new();
    loop {
        let room = MAX_BYTES.saturating_sub(text.len() as u64);
        bytes.clear();
        let read = io::Read::take(&mut *input, room).read_until(b'\n', &mut bytes);
        let read = read.map_err(|error| Failure::work(format!("cannot read standard input: {error}")))?;
        if read as u64 == room && !bytes.ends_with(b"\n") {
            return Err(Failure::work(format!(
                "an input has more than {MAX_BYTES} bytes; give less at once"
            )));
        }
        let line = std::str::from_utf8(&bytes).map_err(|error| {
            let offset = error.valid_up_to();
            Failure::work(format!("a line of standard input is not UTF-8 at its byte {offset}"))
        })?;
        text.push_str(line);
        if read == 0 && text.is_empty() {
            return Ok(Line::End);
        }
        if !is_open(text.strip_suffix('\n').unwrap_or(&text)) {
            return Ok(Line::Text(text));
        }
        if read == 0 {
            let why = "standard input ends where another line was to come: after a backslash, or in a block";
            return Err(Failure::work(format!("{why} that no \"\"\" closes")));
        }
    }
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

    fn all(input: &[u8]) -> Outcome<Vec<String>> {
        let mut input = io::Cursor::new(input);
        let mut texts = Vec::new();
        while let Line::Text(text) = piped(&mut input)? {
            texts.push(text);
        }
        Ok(texts)
    }

    #[test]
    fn piped_inputs_end_with_the_pipe() {
        assert_eq!(all(b"a\nb").expect("reads"), ["a\n", "b"]);
        assert_eq!(
            all(b"a\\\nb\n\"\"\"c\n\nd\"\"\"\ne").expect("reads"),
            ["a\\\nb\n", "\"\"\"c\n\nd\"\"\"\n", "e"]
        );
        assert!(all(b"\xff\n").is_err());
    }

    #[test]
    fn an_input_that_does_not_end_is_refused() {
        assert!(all(b"a\\\n").is_err() && all(b"\"\"\"a\nb\n").is_err());
        // Cheap to read, however many lines there are.
        let long = [b"\"\"\"".as_slice(), &b"\n".repeat(MAX_BYTES as usize)].concat();
        let Err(Failure::Work(sentence)) = all(&long) else { panic!("taken") };
        assert!(sentence.contains("bytes"), "{sentence}");
    }
}
