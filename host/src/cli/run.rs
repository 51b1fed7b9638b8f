//! `cajeta run`: one prompt, one answer.

use std::path::PathBuf;

use cajeta::engine::{EngineOptions, LlmEngine, Sampling};
use cajeta_model_arch::template::Message;
use clap::Args;
use serde::Serialize;

use super::answer::{Answer, generate, milliseconds, timings_line};
use super::conversation::{chat_prompt, mention_lost_instructions, raw_prompt};
use super::failure::{Failure, Outcome};
use super::model::{ModelFlags, load};
use super::sampling::{LengthFlags, SamplingFlags};
use super::source::Source;
use super::{interrupt, output};

const EXAMPLES: &str = "\
Examples:
  cajeta run model.gguf \"Why is the sky blue?\"
  cajeta run model.gguf -p \"Translate: good night\" --system \"You speak French.\"
  cajeta run model.gguf -p \"The capital of France is\" --raw -n 16 --temp 0 --json
  cajeta run model.gguf -f prompt.txt
  git diff | cajeta run model.gguf -

Exit status: 0 answered, 1 failed, 2 wrong usage, 130 stopped by Ctrl-C; what there is of the answer is printed.
The prompt goes through the model's chat template if it has one, unless --raw is given. A newline that \
ends a file or standard input is no part of the prompt.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    #[command(flatten)]
    model: ModelFlags,
    /// The prompt; `-` reads it from standard input, which is also what happens when nothing is given
    /// and standard input is no terminal
    #[arg(value_name = "PROMPT", conflicts_with_all = ["prompt", "file"], help_heading = None::<&'static str>)]
    input: Option<String>,
    /// The prompt
    #[arg(
        short,
        long,
        value_name = "TEXT",
        conflicts_with = "file",
        allow_hyphen_values = true,
        help_heading = "Prompt"
    )]
    prompt: Option<String>,
    /// Read the prompt from a file; `-` is standard input
    #[arg(short, long, value_name = "FILE", help_heading = "Prompt")]
    file: Option<PathBuf>,
    /// Instructions to the model, put before the prompt by the chat template
    #[arg(
        long,
        visible_alias = "system-prompt",
        value_name = "TEXT",
        conflicts_with = "raw",
        allow_hyphen_values = true,
        help_heading = "Prompt"
    )]
    system: Option<String>,
    /// Use the chat template, and fail if the model has none
    #[arg(long, conflicts_with = "raw", help_heading = "Prompt")]
    chat: bool,
    /// Continue the text as it is: the begin token as the file says, special tokens in the text taken
    /// for the tokens, no template
    #[arg(long, help_heading = "Prompt")]
    raw: bool,
    #[command(flatten)]
    length: LengthFlags,
    /// Print ids, text and timings as JSON at the end instead of streaming the text
    #[arg(long, help_heading = "Answer")]
    json: bool,
    #[command(flatten)]
    sampling: SamplingFlags,
}

/// How the prompt is made into tokens.
enum Form {
    /// By the template if there is one.
    Auto,
    /// By the template.
    Chat,
    /// As it is.
    Raw,
}

/// What it means.
struct Options {
    engine: EngineOptions,
    prompt: Source,
    form: Form,
    system: Option<String>,
    max_tokens: Option<usize>,
    sampling: Sampling,
    json: bool,
}

impl Options {
    fn resolve(flags: Flags) -> Outcome<Options> {
        let prompt = match (flags.prompt, flags.file, flags.input) {
            (Some(text), _, _) => Source::Argument(text),
            (_, Some(path), _) => Source::file(path),
            (_, _, input) => {
                let wanted = "no prompt; give one as an argument, with -f, or on standard input (`cajeta chat` holds a conversation)";
                Source::argument(input, wanted)?
            }
        };
        // A system text is an instruction to a template, and must not be dropped where there is none.
        let form = match (flags.raw, flags.chat || flags.system.is_some()) {
            (true, _) => Form::Raw,
            (_, true) => Form::Chat,
            _ => Form::Auto,
        };
        Ok(Options {
            engine: flags.model.resolve()?,
            prompt,
            form,
            system: flags.system,
            max_tokens: flags.length.resolve(),
            sampling: flags.sampling.resolve()?,
            json: flags.json,
        })
    }

    fn prompt_ids(&self, engine: &LlmEngine, text: String) -> Outcome<Vec<u32>> {
        match (&self.form, engine.template()) {
            (Form::Raw, _) | (Form::Auto, None) => Ok(raw_prompt(engine, &text)),
            (Form::Chat, _) | (Form::Auto, Some(_)) => {
                if self.system.is_some() {
                    mention_lost_instructions(engine);
                }
                let system = self.system.as_deref().map(Message::system);
                let messages: Vec<Message> = system.into_iter().chain([Message::user(text)]).collect();
                chat_prompt(engine, &messages)
            }
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    model: String,
    backend: &'a str,
    device: &'a str,
    prompt_ids: &'a [u32],
    generated_ids: &'a [u32],
    text: &'a str,
    finish_reason: &'static str,
    timings: Times,
    /// What draws the same text again; absent where nothing was drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

#[derive(Serialize)]
struct Times {
    load_ms: f64,
    prefill_ms: f64,
    decode_ms: f64,
    prefill_tps: f64,
    decode_tps: f64,
}

/// Answers the prompt.
pub(crate) fn run(flags: Flags) -> Outcome {
    let options = Options::resolve(flags)?;
    let text = options.prompt.prompt()?;
    interrupt::take_over()?;
    let mut engine = load(&options.engine)?;
    let prompt = options.prompt_ids(&engine, text)?;
    let answer = generate(&mut engine, &prompt, options.max_tokens, &options.sampling, !options.json)?;
    let load = engine.load_phases().total;
    let seed = (options.sampling.temperature > 0.0).then_some(options.sampling.seed);
    if options.json {
        output::json(&report(&engine, &prompt, &answer, seed))?;
    }
    let seed = seed.map(|seed| format!(" | seed {seed}")).unwrap_or_default();
    let times = timings_line(&engine, &answer);
    output::note(&format!("load {:.2} s | {times}{seed}", load.as_secs_f64()));
    if answer.is_stopped() { Err(Failure::Interrupted) } else { Ok(()) }
}

fn report<'a>(engine: &'a LlmEngine, prompt: &'a [u32], answer: &'a Answer, seed: Option<u64>) -> Report<'a> {
    let timings = &answer.generation.timings;
    Report {
        model: engine.path().display().to_string(),
        backend: engine.backend().id(),
        device: engine.device().name.as_str(),
        prompt_ids: prompt,
        generated_ids: &answer.generation.ids,
        text: &answer.text,
        finish_reason: answer.generation.finish_reason.name(),
        timings: Times {
            load_ms: milliseconds(engine.load_phases().total),
            prefill_ms: milliseconds(timings.prefill),
            decode_ms: milliseconds(timings.decode),
            prefill_tps: timings.prefill_rate(),
            decode_tps: timings.decode_rate(),
        },
        seed,
    }
}
