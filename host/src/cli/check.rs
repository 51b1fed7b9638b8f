//! `cajeta backends check`: runs every kernel a plugin claims and compares with the oracles.

use std::path::PathBuf;

use cajeta_conformance::Options as Suite;
use cajeta_plugin_host::{ProbeOptions, open_path};
use clap::Args;

use super::failure::{Failure, Outcome};
use super::output;

/// What was typed.
#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// A plugin's library, its manifest, or a folder that holds one manifest
    path: PathBuf,
    /// Run only rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Random problems per row; the first ones are edge shapes
    #[arg(long, value_name = "N", default_value_t = Suite::default().cases, value_parser = clap::value_parser!(u32).range(1..))]
    cases: u32,
    /// Repeats a run exactly
    #[arg(long, value_name = "N", default_value_t = Suite::default().seed)]
    seed: u64,
    /// Check the device at this position
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// Print every row's result as JSON
    #[arg(long)]
    json: bool,
}

/// Checks the plugin; a row that is wrong is a failure.
pub(crate) fn run(flags: Flags) -> Outcome {
    let suite = Suite { seed: flags.seed, cases: flags.cases, filter: flags.filter, ..Suite::default() };
    let refused = |refusal| Failure::work(format!("{} was refused at stage {refusal}", flags.path.display()));
    let backend = open_path(&flags.path, Some(&ProbeOptions::of_process())).map_err(refused)?;
    let device = backend.open(flags.device)?;
    let report = cajeta_conformance::run(&device, &suite);
    if flags.json {
        output::json(&report)?;
    } else {
        output::line(&report.to_string())?;
    }
    let name = report.backend.as_str();
    if let (Some(filter), true) = (&suite.filter, report.rows.is_empty()) {
        return Err(Failure::work(format!("no row of backend `{name}` has {filter:?} in its name")));
    }
    if report.passed() {
        return Ok(());
    }
    Err(match (report.failures().count(), report.failures().next()) {
        (1, Some((row, why))) => Failure::work(format!("backend `{name}` failed a check: {row}: {why}")),
        (count, Some((row, why))) => {
            Failure::work(format!("backend `{name}` failed {count} checks, the first {row}: {why}"))
        }
        (_, None) => Failure::work(format!("nothing of backend `{name}` could be checked on this device")),
    })
}
