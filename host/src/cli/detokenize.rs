//! `cajeta detokenize`: token ids to text. Opens the file's metadata only; no device.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::failure::Outcome;
use super::model::tokenizer;
use super::output;
use super::source::Source;

const EXAMPLES: &str = "\
Examples:
  cajeta detokenize model.gguf \"19556 905\"
  cajeta detokenize model.gguf 19556 905
  cajeta tokenize model.gguf \"Hello\" --json | jq .ids | cajeta detokenize model.gguf -";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The GGUF file
    model: PathBuf,
    /// The ids: a JSON list, or numbers with white space or commas between; `-` reads standard input
    ids: Vec<String>,
    /// Show control tokens as their text
    #[arg(long)]
    special: bool,
    /// Print {"text":"…"}
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    text: String,
}

/// Prints the text of tokens.
pub(crate) fn run(flags: Flags) -> Outcome {
    let argument = (!flags.ids.is_empty()).then(|| flags.ids.join(" "));
    let source = Source::argument(argument, "give the token ids, or `-` for standard input")?;
    let ids = source.ids()?;
    let tokenizer = tokenizer(&flags.model)?;
    tokenizer.check_ids(&ids)?;
    let text = tokenizer.decode_whole(&ids, flags.special);
    if flags.json {
        return output::json(&Report { text });
    }
    // Exactly the text, for programs; people get their prompt on a line of its own.
    output::piece(&text)?;
    if output::to_terminal() { output::text("\n") } else { Ok(()) }
}
