//! A conversation with a loaded model: what was said, what is said next, and the commands about it.

use std::path::Path;
use std::time::Duration;

use cajeta::engine::{EngineError, LlmEngine, Sampling};
use cajeta_model_arch::template::Message;
use cajeta_plugin_host::printable;

use super::answer::{generate, timings_line};
use super::conversation::{chat_prompt, mention_lost_instructions};
use super::failure::{Failure, Outcome, one_sentence};
use super::{output, saved};

/// The commands, for whoever completes them.
pub(crate) const COMMANDS: [&str; 7] = ["help", "reset", "save", "load", "system", "stats", "exit"];

const HELP: &str = "\
/help           this list
/reset          forget the conversation (also /clear)
/save FILE      write the conversation to a file
/load FILE      go on with a conversation that was saved
/system [TEXT]  show the instructions to the model, or replace them and forget the conversation
/stats          tokens, speed and room so far
/exit           leave (also /bye, /quit, Ctrl-D)
A line that ends in \\ goes on in the next; \"\"\" begins and ends a block of lines. Ctrl-C stops an
answer. A line that starts with // is sent with one slash.";

/// How answers are made.
pub(crate) struct Manner {
    /// Instructions to the model.
    pub(crate) system: Option<String>,
    /// Most tokens of an answer.
    pub(crate) max_tokens: Option<usize>,
    /// How they are drawn.
    pub(crate) sampling: Sampling,
}

/// A model and what was said so far.
pub(crate) struct Dialogue {
    engine: LlmEngine,
    manner: Manner,
    /// Whether somebody is there to be told what went wrong, and to do something about it.
    attended: bool,
    messages: Vec<Message>,
    turns: usize,
    answered: (usize, Duration),
    /// Tokens of the last prompt and answer.
    used: usize,
    last: Option<String>,
}

impl Dialogue {
    /// A conversation in which nothing was said.
    ///
    /// # Errors
    /// When the model is not one to talk with: it has no template, or one that takes no instructions.
    pub(crate) fn new(engine: LlmEngine, manner: Manner, attended: bool) -> Outcome<Dialogue> {
        let mut dialogue = Dialogue {
            engine,
            manner,
            attended,
            messages: Vec::new(),
            turns: 0,
            answered: (0, Duration::ZERO),
            used: 0,
            last: None,
        };
        dialogue.reset();
        dialogue.check(&dialogue.messages)?;
        if dialogue.manner.system.is_some() {
            mention_lost_instructions(&dialogue.engine);
        }
        Ok(dialogue)
    }

    /// The model.
    pub(crate) fn engine(&self) -> &LlmEngine {
        &self.engine
    }

    /// Forgets all but the instructions.
    fn reset(&mut self) {
        self.messages.clear();
        self.messages.extend(self.manner.system.as_deref().map(Message::system));
        self.used = 0;
    }

    /// Whether the model's template takes these messages, and a next one fits.
    fn check(&self, messages: &[Message]) -> Outcome {
        let trial: Vec<Message> = messages.iter().cloned().chain([Message::user("x")]).collect();
        self.fits(&chat_prompt(&self.engine, &trial)?)
    }

    fn fits(&self, prompt: &[u32]) -> Outcome {
        let (tokens, ctx) = (prompt.len(), self.engine.ctx());
        let trained = self.engine.config().n_ctx_train;
        let full = EngineError::PromptTooLong { tokens, ctx, trained };
        if tokens > ctx as usize { Err(full.into()) } else { Ok(()) }
    }

    /// What went wrong, told to whoever is there; an unattended conversation ends with it.
    fn told<T>(&self, outcome: Outcome<T>, remedy: &str) -> Outcome<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Failure::Work(sentence)) if self.attended => {
                output::note(&format!("cajeta: {}{remedy}", one_sentence(&sentence)));
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Says something and shows the answer; whether that was stopped. What does not fit the context is
    /// taken back when somebody is there to be told.
    pub(crate) fn say(&mut self, text: &str) -> Outcome<bool> {
        self.messages.push(Message::user(text));
        let prompt =
            chat_prompt(&self.engine, &self.messages).and_then(|prompt| self.fits(&prompt).map(|()| prompt));
        let Some(prompt) = self.told(prompt, "; or begin anew with /reset")? else {
            self.messages.pop();
            return Ok(false);
        };
        let Manner { max_tokens, mut sampling, .. } = self.manner;
        // Turns draw apart, and the whole conversation is drawn alike from one seed.
        sampling.seed = sampling.seed.wrapping_add(self.turns as u64);
        let answer = generate(&mut self.engine, &prompt, max_tokens, &sampling, true)?;
        self.turns += 1;
        self.answered.0 += answer.generation.timings.decode_tokens;
        self.answered.1 += answer.generation.timings.decode;
        self.used = prompt.len() + answer.generation.ids.len();
        self.last = Some(timings_line(&self.engine, &answer));
        let stopped = answer.is_stopped();
        if stopped && self.attended {
            output::note("(stopped)");
        }
        self.messages.push(Message::assistant(answer.text));
        Ok(stopped)
    }

    /// Does what a command asks for.
    pub(crate) fn command(&mut self, name: &str, argument: &str) -> Outcome {
        match (name, argument) {
            ("help" | "?", _) => output::note(HELP),
            ("reset" | "clear", _) => {
                self.reset();
                output::note("forgotten");
            }
            ("save" | "load", "") => output::note(&format!("give a file: /{name} FILE")),
            ("save", file) => {
                let (path, name) = (saved::named(file), self.name());
                let outcome = saved::save(&path, &name, &self.messages);
                if self.told(outcome, "")?.is_some() {
                    output::note(&one_sentence(&format!("{} saved in {}", self.so_far(), path.display())));
                }
            }
            ("load", file) => {
                let outcome = self.load(&saved::named(file));
                if self.told(outcome, "; what was said before stays")?.is_some() {
                    output::note(&format!("{} loaded", self.so_far()));
                }
            }
            ("system", "") => {
                let system = self.manner.system.as_deref().unwrap_or("no instructions");
                // They can come from a file.
                output::note(&output::visible(system));
            }
            ("system", text) => {
                let messages = vec![Message::system(text)];
                // Some templates refuse instructions; then what was before stays.
                let outcome = self.check(&messages);
                if self.told(outcome, "")?.is_some() {
                    self.manner.system = Some(text.to_owned());
                    self.reset();
                    output::note("the conversation begins anew with these instructions");
                    mention_lost_instructions(&self.engine);
                }
            }
            ("stats", _) => self.stats(),
            _ => {
                let name = printable::line(name, 40);
                output::note(&format!("no command is called /{name}; /help lists them"));
            }
        }
        Ok(())
    }

    /// Replaces the conversation by one from a file, if the model takes it.
    fn load(&mut self, path: &Path) -> Outcome {
        let messages = saved::load(path)?;
        self.check(&messages)?;
        let system = messages.first().filter(|message| message.role == "system");
        let system = system.and_then(|message| message.content.as_str());
        // Instructions of the file may be none, and then the conversation has none.
        self.manner.system = system.map(str::to_owned);
        self.messages = messages;
        self.used = 0;
        Ok(())
    }

    fn stats(&self) {
        let (tokens, time) = self.answered;
        let rate = if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() };
        let turns = if self.turns == 1 { "turn" } else { "turns" };
        output::note(&format!("{} {turns}, {tokens} tokens decoded, {rate:.1} tok/s", self.turns));
        output::note(&format!("context: {} of {} positions used", self.used, self.engine.ctx()));
        if let Some(last) = &self.last {
            output::note(&format!("last: {last}"));
        }
    }

    fn so_far(&self) -> String {
        let count = self.messages.len();
        format!("{count} message{}", if count == 1 { "" } else { "s" })
    }

    /// The model's file without its folder.
    fn name(&self) -> String {
        self.engine.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}
