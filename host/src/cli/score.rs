//! `cajeta score`: the model's predictions along a given text.

use std::path::PathBuf;

use cajeta::engine::{EngineOptions, LlmEngine, Scored};
use cajeta_model_arch::tokenizer::Special;
use clap::Args;
use serde::Serialize;

use super::failure::Outcome;
use super::model::{ModelFlags, load};
use super::source::Source;
use super::{interrupt, output};

const EXAMPLES: &str = "\
Examples:
  cajeta score model.gguf --text book.txt
  cajeta score model.gguf --ids ids.json --top 8 --json
A text gets the begin token as the file says, and special tokens in it are plain text. Ids are taken as \
they are. Step i scores the prediction after token i: a logit minus `lse` is a log-probability.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    input: Input,
    /// Keep this many of the largest logits of each step
    #[arg(long, value_name = "K", default_value_t = 8, help_heading = "Output")]
    top: usize,
    /// Compute this many tokens at once; 1 runs every token through the decode kernels
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = rows(), help_heading = "Placement")]
    rows: u16,
    /// Print every step as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

fn rows() -> impl clap::builder::TypedValueParser<Value = u16> {
    clap::value_parser!(u16).range(1..)
}

#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
struct Input {
    /// Score the text of a file; `-` is standard input
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    text: Option<PathBuf>,
    /// Score token ids: a file with a JSON list or numbers; `-` is standard input
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    ids: Option<PathBuf>,
}

/// What is scored.
enum Subject {
    Text(Source),
    Ids(Source),
}

/// What it means.
struct Options {
    engine: EngineOptions,
    subject: Subject,
    top: usize,
    rows: usize,
    json: bool,
}

impl Options {
    fn resolve(flags: Flags) -> Outcome<Options> {
        let subject = match (flags.input.text, flags.input.ids) {
            (Some(path), _) => Subject::Text(Source::file(path)),
            (None, Some(path)) => Subject::Ids(Source::file(path)),
            (None, None) => return Err(super::failure::Failure::usage("give --text or --ids")),
        };
        let (top, rows, json) = (flags.top, usize::from(flags.rows), flags.json);
        Ok(Options { engine: flags.model.resolve()?, subject, top, rows, json })
    }
}

/// A text or ids that have been read; text waits for the model's tokenizer.
enum Words {
    Text(String),
    Ids(Vec<u32>),
}

#[derive(Serialize)]
struct Report<'a> {
    ids: &'a [u32],
    mean_nll: f64,
    ppl: f64,
    steps: Vec<Step>,
}

#[derive(Serialize)]
struct Step {
    id: u32,
    lse: f64,
    top: Vec<Candidate>,
}

#[derive(Serialize)]
struct Candidate {
    id: u32,
    logit: f32,
}

/// Scores the text.
pub(crate) fn run(flags: Flags) -> Outcome {
    let options = Options::resolve(flags)?;
    let words = match &options.subject {
        Subject::Text(source) => Words::Text(source.text()?),
        Subject::Ids(source) => Words::Ids(source.ids()?),
    };
    interrupt::take_over()?;
    let mut engine = load(&options.engine)?;
    let ids = ids(&engine, words);
    let started = std::time::Instant::now();
    let scored = engine.score(&ids, options.top, options.rows)?;
    let seconds = started.elapsed().as_secs_f64();
    if options.json {
        return output::json(&report(&scored));
    }
    output::line(&format!("tokens    {}", scored.ids.len()))?;
    output::line(&format!("mean nll  {:.6}", scored.mean_nll))?;
    output::line(&format!("ppl       {:.4}", scored.ppl))?;
    output::note(&format!(
        "{:.1} tok/s | {}: {}",
        scored.ids.len() as f64 / seconds.max(1e-9),
        engine.backend().id(),
        engine.device().name
    ));
    Ok(())
}

fn ids(engine: &LlmEngine, words: Words) -> Vec<u32> {
    match words {
        Words::Text(text) => engine.tokenizer().with_bos(engine.tokenizer().encode(&text, Special::Plain)),
        Words::Ids(ids) => ids,
    }
}

fn report(scored: &Scored) -> Report<'_> {
    let steps = scored.steps.iter().map(|step| Step {
        id: step.id,
        lse: step.lse,
        top: step.top.iter().map(|&(id, logit)| Candidate { id, logit }).collect(),
    });
    Report { ids: &scored.ids, mean_nll: scored.mean_nll, ppl: scored.ppl, steps: steps.collect() }
}
