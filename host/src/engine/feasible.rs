//! Which members of families a device can run, where nothing else is asked about them: declared order,
//! but for what the filter prunes.

use std::collections::BTreeSet;

use cajeta_abi::Row;

use super::error::EngineError;
use super::runner::Runner;
use crate::lower::{Placed, Segment, Sizes};
use crate::record::Answered;
use crate::route::Registry;
use crate::route::rows::RowRoute;
use crate::tune::{Answers, TileFamily, gates_hold};

/// Lets the next member serve where the device cannot run the first; what is lowered from here on goes by
/// it. That it can run none is said, and is for the launch to fail by.
///
/// # Errors
/// When no kernel serves a segment.
pub(super) fn pass_over_infeasible(
    runner: &mut Runner,
    segments: &[(Segment, Sizes)],
) -> Result<(), EngineError> {
    let device = runner.registry.device().clone();
    let (rows, layouts) = (device.backend().rows(), device.backend().layouts());
    let (mut answers, mut seen) = (Answers::default(), BTreeSet::new());
    for (segment, sizes) in segments {
        for Placed { row, problem, scalars, what, .. } in runner.lowered(*segment, sizes)?.launches {
            let lead = rows.get(row).filter(|_| seen.insert((row, [problem.m, problem.n, problem.k])));
            let Some((_, route)) = lead.and_then(|lead| RowRoute::new(row, lead, layouts)) else { continue };
            let registry = &runner.registry;
            let admits = |other: &Row| registry.can_run(other) && gates_hold(other, &problem, &scalars);
            let family = TileFamily::of_row(rows, row, &admits);
            match family.filtered(&device, device.facts(), &problem, &scalars) {
                Ok((filtered, _)) => {
                    let first = filtered.survivors.first().map_or(row, |survivor| survivor.candidate.row);
                    let name = rows.get(first).map_or("", |row| row.name.as_str());
                    answers.put_member(&route, &problem, &scalars, name, Answered::Outright);
                }
                Err(error) => tracing::warn!(target: "cajeta::tune", "{what}: {error}"),
            }
        }
    }
    if !answers.is_empty() {
        runner.registry.settle(answers);
    }
    Ok(())
}
