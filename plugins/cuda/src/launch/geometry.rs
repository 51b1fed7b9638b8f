//! The launch shape of a row: the stages `list` uses, as the host sees them.

use cajeta_plugin_api::Answer;
use cajeta_plugin_api::abi::{DeviceFacts, Fact, Geometry, Problem};

use super::shape::{self, Needs};
use crate::registry::Entry;

/// Geometry of an entry at a problem. A row of several stages answers with its first.
///
/// # Errors
/// A problem beyond a grid or beyond 64 bits; heads the kernels do not hold.
pub(crate) fn geometry(
    entry: Entry,
    facts: &DeviceFacts,
    problem: &Problem,
    scalars: &[u8],
) -> Answer<Geometry> {
    let multiprocessors = facts.get(Fact::MULTIPROCESSORS).unwrap_or(1);
    let split = shape::split(entry, problem, scalars, multiprocessors)?;
    let most = shape::split_most(entry, problem, split);
    let Needs { scratch, semaphores } = shape::needs(entry, problem, scalars, most)?;
    let stages = shape::stages(entry, problem, scalars, split, multiprocessors)?;
    let mut geometry = Geometry {
        cluster: [1; 3],
        split_min: split,
        split_max: most,
        scratch_bytes: scratch,
        semaphore_bytes: semaphores,
        ..Geometry::default()
    };
    if let Some(stage) = stages.first() {
        geometry.grid = stage.grid;
        geometry.block = [stage.threads, 1, 1];
        geometry.dynamic_shared = stage.shared;
    }
    Ok(geometry)
}
