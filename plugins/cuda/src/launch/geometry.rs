//! The launch shape a row answers with: what `list` uses, as far as the problem alone says it.

use cajeta_plugin_api::abi::{DeviceFacts, Fact, Geometry, Problem};
use cajeta_plugin_api::{Answer, Fault};

use super::shape::{self, attention_scratch, attention_split};
use crate::registry::{Entry, Kind};

/// Geometry of an entry at a problem.
///
/// A grid of attention depends on the heads, which scalars say and a problem does not; its first stage is given as one
/// block a row and part.
///
/// # Errors
/// A problem beyond a grid or beyond 64 bits.
pub(crate) fn geometry(entry: Entry, facts: &DeviceFacts, problem: &Problem) -> Answer<Geometry> {
    let mut geometry = Geometry { cluster: [1; 3], split_min: 1, split_max: 1, ..Geometry::default() };
    if entry.kind == Kind::Attention {
        let split = attention_split(entry, problem, facts.get(Fact::MULTIPROCESSORS).unwrap_or(1));
        let rows = u32::try_from(problem.m).unwrap_or(u32::MAX);
        geometry.grid = [rows, 1, split];
        geometry.block = [128, 1, 1];
        (geometry.split_min, geometry.split_max) = (split, split);
        geometry.scratch_bytes = attention_scratch(problem, split).ok_or_else(|| {
            Fault::invalid(format!("the parts of {} rows of {} overflow 64 bits", problem.m, problem.n))
        })?;
        return Ok(geometry);
    }
    let stages = shape::stages(entry, problem, &[], 1)?;
    if let Some(stage) = stages.first() {
        geometry.grid = stage.grid;
        geometry.block = [stage.threads, 1, 1];
        geometry.dynamic_shared = stage.shared;
    }
    Ok(geometry)
}
