//! `cajeta tokenize`: text to token ids. Opens the file's metadata only; no device.

use std::path::PathBuf;

use cajeta_model_arch::tokenizer::Special;
use clap::Args;
use serde::Serialize;

use super::failure::Outcome;
use super::model::tokenizer;
use super::output;
use super::source::Source;

const EXAMPLES: &str = "\
Examples:
  cajeta tokenize model.gguf \"Hello world\"
  cajeta tokenize model.gguf - --json < text.txt
  cajeta tokenize model.gguf \"<|im_start|>user\" --special --bos
  cajeta tokenize model.gguf -- \"-starts with a dash\"";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The GGUF file
    model: PathBuf,
    /// The text; `-` reads bytes from standard input, as they are
    text: Option<String>,
    /// Take special tokens written out in the text for the tokens
    #[arg(long)]
    special: bool,
    /// Put the begin token in front, if the model wants one
    #[arg(long)]
    bos: bool,
    /// Print {"ids":[…]}
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    ids: Vec<u32>,
}

/// Prints the tokens of a text.
pub(crate) fn run(flags: Flags) -> Outcome {
    let source = Source::argument(flags.text, "give the text to tokenize, or `-` for standard input")?;
    let tokenizer = tokenizer(&flags.model)?;
    let special = if flags.special { Special::Parse } else { Special::Plain };
    let mut ids = tokenizer.encode_bytes(&source.bytes()?, special)?;
    if flags.bos {
        ids = tokenizer.with_bos(ids);
    }
    if flags.json {
        return output::json(&Report { ids });
    }
    let lines = ids.iter().map(|&id| {
        let bytes = tokenizer.token_bytes(id).unwrap_or_default();
        format!("{id:>7}  {:?}\n", String::from_utf8_lossy(bytes))
    });
    output::text(&lines.collect::<String>())
}
