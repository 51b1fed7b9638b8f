//! Says which of somebody's choices a model has no use for, and why.

use std::collections::BTreeSet;

use super::affordable::Extent;
use super::error::EngineError;
use super::runner::Runner;
use crate::route::Registry;
use crate::tune::Tuning;

/// Warns of each choice that answers no question and whose row serves nothing that will run.
///
/// # Errors
/// When no kernel serves a segment.
pub(super) fn warn_of_unused(runner: &Runner, tuning: &Tuning, extent: &Extent) -> Result<(), EngineError> {
    let unused = tuning.unused_overrides();
    if unused.is_empty() {
        return Ok(());
    }
    let rows = runner.registry.rows();
    let mut serving = BTreeSet::new();
    for (segment, sizes) in extent.wishes() {
        let launches = runner.lowered(segment, &sizes)?.launches;
        serving
            .extend(launches.iter().filter_map(|launch| rows.get(launch.row)).map(|row| row.name.as_str()));
    }
    for text in unused {
        let arm = text.split_once('=').map_or("", |(_, arm)| arm);
        if !serving.contains(arm) {
            let why = why(&runner.registry, arm);
            tracing::warn!(target: "cajeta::tune", "`{text}` fixes nothing: {why}");
        }
    }
    Ok(())
}

/// Why a row that was chosen does not serve.
fn why(registry: &dyn Registry, arm: &str) -> String {
    let row = registry.rows().iter().find(|row| row.name.as_str() == arm);
    let missing = row.and_then(|row| row.needs.iter().find(|need| !registry.supports(need.capability)));
    match (registry.unusable(arm), missing) {
        (Some(reason), _) => format!("{arm} cannot be used here: {reason}"),
        (None, Some(need)) => format!("{arm} needs {}, which the device lacks", need.name),
        (None, None) => "this model asks nothing here that it answers".to_owned(),
    }
}
