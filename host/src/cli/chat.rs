//! `cajeta chat`: a conversation, one input a turn.

use cajeta::engine::EngineOptions;
use clap::Args;

use super::dialogue::{COMMANDS, Dialogue, Manner};
use super::failure::{Failure, Outcome};
use super::lines::{Line, Lines};
use super::model::{ModelFlags, load};
use super::sampling::{LengthFlags, SamplingFlags};
use super::turn::Turn;
use super::{interrupt, output};

const EXAMPLES: &str = "\
Examples:
  cajeta chat model.gguf
  cajeta chat model.gguf --system \"Answer in one sentence.\"
  printf 'Hello\\nAnd in French?\\n' | cajeta chat model.gguf

At the prompt:
  /help /reset /save FILE /load FILE /system [TEXT] /stats /exit
  a line that ends in \\ goes on in the next; \"\"\" begins and ends a block of lines
  Ctrl-C stops the answer, not the program; Ctrl-D leaves

Only the new part of a conversation is computed at each turn. What was typed is remembered in \
cajeta/chat_history below XDG_STATE_HOME, or ~/.local/state.";

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
    manner: Manner,
}

/// Talks until the input ends.
pub(crate) fn run(flags: Flags) -> Outcome {
    let options = Options {
        engine: flags.model.resolve()?,
        manner: Manner {
            system: flags.system,
            max_tokens: flags.length.resolve(),
            sampling: flags.sampling.resolve()?,
        },
    };
    interrupt::take_over()?;
    let engine = load(&options.engine)?;
    let mut lines = Lines::open(&COMMANDS)?;
    let attended = lines.is_terminal();
    // Says now, rather than after the first line, that the model is not one to talk with.
    let mut dialogue = Dialogue::new(engine, options.manner, attended)?;
    if attended {
        let (model, backend) = (dialogue.engine().path().display(), dialogue.engine().backend().id());
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
            Turn::Say(text) => stopped = dialogue.say(&text)?,
            Turn::Command(name, argument) => dialogue.command(&name, &argument)?,
        }
    }
    // To a program that feeds lines, a stopped answer is what `run` makes of it.
    if stopped && !attended { Err(Failure::Interrupted) } else { Ok(()) }
}
