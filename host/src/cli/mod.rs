//! The command line: what each command takes, and what it does.
//!
//! A command is one file. In it `Flags` is what was typed, `Options` (where there is anything to
//! resolve) what it means, and `run` does it. Results go to standard output, all else to standard
//! error.

pub(crate) mod failure;
pub(crate) mod output;
pub(crate) mod table;
mod colour;
pub(crate) mod log;
pub(crate) mod environment;
mod progress;
mod interrupt;
mod source;
mod model;
mod sampling;
mod conversation;
mod answer;
pub(crate) mod run;
mod turn;
mod lines;
mod saved;
mod dialogue;
pub(crate) mod chat;
pub(crate) mod score;
pub(crate) mod tokenize;
pub(crate) mod detokenize;
mod facts;
mod lowering;
mod weights;
mod verdict;
mod contents;
pub(crate) mod inspect;
pub(crate) mod devices;
mod check;
pub(crate) mod backends;
pub(crate) mod kernels;
pub(crate) mod audit;
mod launches;
mod measured;
pub(crate) mod bench;
pub(crate) mod synth;
pub(crate) mod tune;
mod snapshot;
pub(crate) mod calibrate;
pub(crate) mod completions;
pub(crate) mod man;

use cajeta_plugin_host::printable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};

use failure::{Failure, Outcome};

/// Characters of what was typed that a mistake repeats.
const TYPED_MAX: usize = 200;

const EXAMPLES: &str = "\
Examples:
  cajeta run model.gguf -p \"Why is the sky blue?\"    answer with the model's chat template
  cajeta run model.gguf -p \"Once upon\" --raw -n 64   continue a text as it is
  cajeta run model.gguf -f ask.txt --temp 0 --json   greedy; ids, text and timings as JSON
  cajeta chat model.gguf                             talk; Ctrl-C stops an answer
  cajeta inspect model.gguf                          what a file holds, and does it run here
  cajeta backends --explain                          every backend, used or not, and why

Environment:
  CAJETA_XPU_BACKEND        use only these backends, comma-separated
  CAJETA_PLUGIN_PATH        look for backend plugins in these folders instead of the usual ones
  CAJETA_PLUGIN_ADD_PATH    look for them in these folders too
  CAJETA_CPU_THREADS        threads of the processor backend
  CAJETA_LLM_TUNE_DIR       where measured choices are kept; off measures none
  CAJETA_LLM_SHAPE_OVERRIDE rows that serve their families whatever was measured: FAMILY=ROW, comma-separated
  CAJETA_LOG                records on standard error: warn (as usual), info, debug, trace
  CAJETA_RECORDS            append every record to this file, a line of JSON each
  NO_COLOR                  set to anything, no colours; nor with CLICOLOR=0
  XDG_STATE_HOME            the folder of cajeta/chat_history; ~/.local/state if absent

Files:
  ~/.config/cajeta/cajeta.toml, /etc/cajeta/cajeta.toml    plugin_paths, tune_dir, records

Exit status: 0 success, 1 failed, 2 wrong usage, 130 interrupted.
Results go to standard output, all else to standard error; a failure is one sentence. \
`cajeta help COMMAND` explains a command's options.";

/// Runs GGUF language models on whatever backend plugins are installed.
#[derive(Parser, Debug)]
#[command(name = "cajeta", version, after_help = EXAMPLES, arg_required_else_help = true, max_term_width = 110, styles = colour::HELP)]
pub(crate) struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Verb {
    /// Answer a prompt, or continue a text, and end
    Run(run::Flags),
    /// Talk with a model
    Chat(chat::Flags),
    /// Score a given text: log-probabilities and perplexity
    Score(score::Flags),
    /// Turn text into token ids
    Tokenize(tokenize::Flags),
    /// Turn token ids into text
    Detokenize(detokenize::Flags),
    /// Say what a model file holds, and whether it runs here
    Inspect(inspect::Flags),
    /// List the devices of every usable backend
    Devices(devices::Flags),
    /// List backends and why each is used or not; check a built one
    Backends(backends::Flags),
    /// List the selected backend's kernels, or those a model would run on
    Kernels(kernels::Flags),
    /// Hold every installed plugin's kernels against every op and format; asks no device
    Audit(audit::Flags),
    /// Time prefill, decode and the kernels of a step
    Bench(bench::Flags),
    /// Write a model file of any shape with random weights
    Synth(synth::Flags),
    /// List or forget this machine's measured choices
    Tune(tune::Flags),
    /// Measure what holds for the whole device: bandwidth, peaks, costs
    Calibrate(calibrate::Flags),
    /// Print a script that teaches a shell these commands
    Completions(completions::Flags),
    /// Write manual pages to a folder
    #[command(hide = true)]
    Man(man::Flags),
}

/// What was typed, or nothing when that was a question about usage, which has been answered.
pub(crate) fn flags() -> Outcome<Option<Flags>> {
    let error = match Flags::try_parse() {
        Ok(flags) => return Ok(Some(flags)),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            output::text(&rendered(&error, colour::on_stdout())).map(|()| None)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::painted_note(rendered(&error, colour::on_stderr()).trim_end());
            Err(Failure::usage("nothing to do; name a command"))
        }
        _ => Err(Failure::Usage(mistake(&error))),
    }
}

/// A help text, in colours or plain.
fn rendered(help: &clap::Error, coloured: bool) -> String {
    let text = help.render();
    if coloured { text.ansi().to_string() } else { text.to_string() }
}

/// What is wrong with the command line, and the usage of the command it names.
fn mistake(error: &clap::Error) -> String {
    let mut said = error.render().to_string();
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand] {
        if let Some(ContextValue::String(typed)) = error.get(kind)
            && typed.chars().nth(TYPED_MAX).is_some()
        {
            said = said.replace(typed.as_str(), &printable::line(typed, TYPED_MAX));
        }
    }
    let said = said.strip_prefix("error: ").unwrap_or(&said);
    let paragraphs: Vec<&str> = said.split("\n\n").map(str::trim).filter(|text| !text.is_empty()).collect();
    let is_usage = |text: &str| text.starts_with("Usage:");
    let message =
        paragraphs.iter().filter(|text| !is_usage(text) && !text.starts_with("For more information"));
    let mut sentence = message.map(|text| words(text)).collect::<Vec<_>>().join("; ");
    if let Some(usage) = paragraphs.iter().find(|text| is_usage(text)) {
        sentence.push_str(&format!("; {}", words(usage).replacen("Usage:", "usage:", 1)));
    } else if error.get(ContextKind::InvalidArg).is_none() {
        sentence.push_str("; `cajeta help` lists the commands");
    }
    sentence
}

/// A paragraph on one line.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_flags_are_consistent() {
        Flags::command().debug_assert();
    }

    #[test]
    fn mistakes_are_one_line_with_the_usage() {
        let mistake = |line: &str| {
            let error = Flags::try_parse_from(line.split(' ')).expect_err(line);
            mistake(&error)
        };
        let long = "x".repeat(120_000);
        for line in [
            format!("cajeta run m --prefer {long}"),
            format!("cajeta {long}"),
            format!("cajeta run --{long}"),
        ] {
            let sentence = mistake(&line);
            assert!(sentence.len() < 1500 && sentence.contains("xxx…"), "{} bytes", sentence.len());
        }
        let below = mistake("cajeta run m --widen-budget -1");
        assert!(below.contains("whole number of bytes") && !below.contains("-- -1"), "{below}");
        let missing = mistake("cajeta run");
        assert!(missing.contains("<MODEL>") && missing.contains("usage: cajeta run"), "{missing}");
        for line in
            ["cajeta nonsense", "cajeta run m --temp x", "cajeta run m -n -2", "cajeta run m --chat --raw"]
        {
            let sentence = mistake(line);
            assert!(!sentence.contains('\n') && !sentence.is_empty(), "{sentence}");
        }
    }
}
