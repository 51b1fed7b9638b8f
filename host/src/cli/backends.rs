//! `cajeta backends`: which backends there are, which one is used, and why not the others.

use cajeta::route::usable::select_options;
use cajeta_plugin_host::{Explanation, Outcome as Found, SelectError, explain, select};
use clap::{Args, Subcommand};

use super::failure::Outcome;
use super::table::Table;
use super::{check, output};

const EXAMPLES: &str = "\
Examples:
  cajeta backends                        what is installed, and which one models run on
  cajeta backends --explain              probe all; for each the stage it came to, why, what to do
  cajeta backends check target/debug     hold a built plugin against the oracles
Stages: manifest, trust, arch, open, symbol, abi, layout, probe, device, policy.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct Flags {
    /// Probe every candidate, and say how far each came, why no further, and what to do
    #[arg(long)]
    explain: bool,
    /// Print candidates and searched folders as JSON
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Run every kernel a built plugin claims, and hold the results against the oracles
    Check(check::Flags),
    /// The process of a check that calls the plugin
    #[command(hide = true)]
    CheckWorker(check::WorkerFlags),
}

/// Prints the candidates, or checks one plugin.
pub(crate) fn run(flags: Flags) -> Outcome {
    match flags.verb {
        Some(Verb::Check(flags)) => return check::run(flags),
        Some(Verb::CheckWorker(flags)) => return check::work(flags),
        None => {}
    }
    let options = select_options()?;
    let explanation = if flags.explain {
        explain(&options)?
    } else {
        // As a model's load would: in order, up to the first that works. That none does is an answer.
        match select(&options) {
            Ok(selected) => selected.explanation,
            Err(SelectError::NoneUsable { explanation }) => *explanation,
            Err(error) => return Err(error.into()),
        }
    };
    match (flags.json, flags.explain) {
        (true, _) => output::json(&explanation),
        (false, true) => output::text(&explanation.to_string()),
        (false, false) => output::text(&brief(&explanation)),
    }
}

/// One line per candidate.
fn brief(explanation: &Explanation) -> String {
    let mut table = Table::new(&["backend", "version", "state"]);
    for candidate in &explanation.candidates {
        let chosen = explanation.chosen.as_deref() == Some(candidate.id.as_str());
        let state = match &candidate.outcome {
            Found::Usable { .. } if chosen => format!("chosen, {}", candidate.state()),
            _ => candidate.state(),
        };
        table.row([candidate.id.clone(), candidate.version.clone(), state]);
    }
    for name in &explanation.missing {
        table.row([name.clone(), "-".into(), "not installed".into()]);
    }
    let none = "no backend plugin was found; `cajeta backends --explain` says where it was looked for\n";
    if table.is_empty() { none.to_owned() } else { table.to_string() }
}
