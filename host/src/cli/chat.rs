//! `cajeta chat`: a conversation, one line a turn.

use std::time::Duration;

use cajeta::engine::{EngineError, EngineOptions, LlmEngine, Sampling};
use cajeta_model_arch::template::Message;
use clap::Args;

use super::answer::{generate, timings_line};
use super::conversation::chat_prompt;
use super::failure::{Failure, Outcome};
use super::lines::{Line, Lines};
use super::model::{ModelFlags, load};
use super::sampling::{LengthFlags, SamplingFlags};
use super::{interrupt, output};

const EXAMPLES: &str = "\
Examples:
  cajeta chat model.gguf
  cajeta chat model.gguf --system \"Answer in one sentence.\"
  printf 'Hello\\nAnd in French?\\n' | cajeta chat model.gguf
Ctrl-C stops the answer, not the program; Ctrl-D or /exit leaves; /help lists the commands. Only the \
new part of a conversation is computed at each turn.";

const HELP: &str = "\
/help           this list
/reset          forget the conversation
/system [TEXT]  show the instructions to the model, or replace them and forget the conversation
/stats          tokens and speed so far
/exit           leave (as does Ctrl-D)
Ctrl-C stops an answer. A line that starts with // is sent with one slash.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    model: ModelFlags,
    /// Instructions to the model
    #[arg(
        long,
        visible_alias = "system-prompt",
        value_name = "TEXT",
        allow_hyphen_values = true,
        help_heading = "Prompt"
    )]
    system: Option<String>,
    #[command(flatten)]
    length: LengthFlags,
    #[command(flatten)]
    sampling: SamplingFlags,
}

/// What it means.
struct Options {
    engine: EngineOptions,
    system: Option<String>,
    max_tokens: Option<usize>,
    sampling: Sampling,
}

/// Talks until the input ends.
pub(crate) fn run(flags: Flags) -> Outcome {
    let options = Options {
        engine: flags.model.resolve()?,
        system: flags.system,
        max_tokens: flags.length.resolve(),
        sampling: flags.sampling.resolve()?,
    };
    interrupt::take_over()?;
    let engine = load(&options.engine)?;
    let mut chat = Chat::new(engine, options);
    // Says now, rather than after the first line, that the model is not one to talk with.
    chat.check()?;
    let mut lines = Lines::open()?;
    if lines.is_terminal() {
        let (model, backend) = (chat.engine.path().display(), chat.engine.backend().id());
        output::note(&format!("{model} on {backend}; /help lists the commands, Ctrl-D leaves"));
    }
    let mut stopped = false;
    loop {
        let line = match lines.next()? {
            Line::Text(line) => line,
            Line::Cancelled => continue,
            Line::End => break,
        };
        match Turn::read(&line) {
            Turn::Nothing => {}
            Turn::Leave => break,
            Turn::Say(text) => stopped = chat.say(text, lines.is_terminal())?,
            Turn::Command(name, argument) => chat.command(name, argument)?,
        }
    }
    // To a program that feeds lines, a stopped answer is what `run` makes of it.
    if stopped && !lines.is_terminal() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// What a line asks for.
#[derive(PartialEq, Debug)]
enum Turn<'a> {
    Nothing,
    Leave,
    Say(&'a str),
    Command(&'a str, &'a str),
}

impl Turn<'_> {
    fn read(line: &str) -> Turn<'_> {
        let line = line.trim();
        let Some(command) = line.strip_prefix('/') else {
            return if line.is_empty() { Turn::Nothing } else { Turn::Say(line) };
        };
        if command.starts_with('/') {
            return Turn::Say(command);
        }
        let (name, argument) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        if matches!(name, "exit" | "quit" | "bye") {
            Turn::Leave
        } else {
            Turn::Command(name, argument.trim())
        }
    }
}

/// A model and what was said so far.
struct Chat {
    engine: LlmEngine,
    options: Options,
    messages: Vec<Message>,
    turns: usize,
    answered: (usize, Duration),
    last: Option<String>,
}

impl Chat {
    fn new(engine: LlmEngine, options: Options) -> Chat {
        let mut chat = Chat {
            engine,
            options,
            messages: Vec::new(),
            turns: 0,
            answered: (0, Duration::ZERO),
            last: None,
        };
        chat.reset();
        chat
    }

    /// Forgets all but the instructions.
    fn reset(&mut self) {
        self.messages.clear();
        self.messages.extend(self.options.system.as_deref().map(Message::system));
    }

    /// Whether the model has a template, and it takes the instructions.
    fn check(&self) -> Outcome {
        let mut trial = self.messages.clone();
        trial.push(Message::user("x"));
        chat_prompt(&self.engine, &trial).map(|_| ())
    }

    /// Says something and shows the answer; whether that was stopped. What does not fit the context is
    /// taken back when somebody is there to be told.
    fn say(&mut self, text: &str, forgiving: bool) -> Outcome<bool> {
        self.messages.push(Message::user(text));
        let prompt = chat_prompt(&self.engine, &self.messages)?;
        let (tokens, ctx) = (prompt.len(), self.engine.ctx());
        if tokens > ctx as usize {
            let trained = self.engine.config().n_ctx_train;
            let full = EngineError::PromptTooLong { tokens, ctx, trained };
            if !forgiving {
                return Err(full.into());
            }
            self.messages.pop();
            output::note(&format!("cajeta: {full}; or begin anew with /reset"));
            return Ok(false);
        }
        let Options { max_tokens, mut sampling, .. } = self.options;
        // Turns draw apart, and the whole conversation is drawn alike from one seed.
        sampling.seed = sampling.seed.wrapping_add(self.turns as u64);
        let answer = generate(&mut self.engine, &prompt, max_tokens, &sampling, true)?;
        self.turns += 1;
        self.answered.0 += answer.generation.timings.decode_tokens;
        self.answered.1 += answer.generation.timings.decode;
        self.last = Some(timings_line(&self.engine, &answer));
        let stopped = answer.is_stopped();
        self.messages.push(Message::assistant(answer.text));
        Ok(stopped)
    }

    fn command(&mut self, name: &str, argument: &str) -> Outcome {
        match (name, argument) {
            ("help", _) => output::note(HELP),
            ("reset", _) => {
                self.reset();
                output::note("forgotten");
            }
            ("system", "") => {
                let system = self.options.system.as_deref().unwrap_or("no instructions");
                output::note(system);
            }
            ("system", text) => {
                let before = self.options.system.replace(text.to_owned());
                self.reset();
                // Some templates refuse instructions; then what was before stays.
                if let Err(Failure::Work(sentence)) = self.check() {
                    self.options.system = before;
                    self.reset();
                    output::note(&format!("cajeta: {sentence}"));
                } else {
                    output::note("the conversation begins anew with these instructions");
                }
            }
            ("stats", _) => {
                let (tokens, time) = self.answered;
                let rate = if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() };
                output::note(&format!("{} turns, {tokens} tokens decoded, {rate:.1} tok/s", self.turns));
                if let Some(last) = &self.last {
                    output::note(&format!("last: {last}"));
                }
            }
            _ => output::note(&format!("no command is called /{name}; /help lists them")),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_words_or_commands() {
        assert_eq!(Turn::read("  hi there "), Turn::Say("hi there"));
        assert_eq!(Turn::read("   "), Turn::Nothing);
        assert_eq!(Turn::read("/exit"), Turn::Leave);
        assert_eq!(Turn::read("/system  be brief "), Turn::Command("system", "be brief"));
        assert_eq!(Turn::read("//etc is a folder"), Turn::Say("/etc is a folder"));
        assert_eq!(Turn::read("/"), Turn::Command("", ""));
    }
}
