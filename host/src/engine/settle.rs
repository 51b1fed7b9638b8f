//! Settles what the launches of a model ask, over its resident weights, before anything is decoded.

use std::time::Duration;

use cajeta_abi::{Capability, Fact, FormatId, Problem};
use cajeta_plugin_host::Device;

use super::error::EngineError;
use super::runner::Runner;
use crate::lower::{Place, Placed, Segment, Sizes};
use crate::route::Registry;
use crate::tune::{FOREIGN_PERCENT_MAX, Prewarm, TuneError, Tuning};

/// Time after which a load begins no further measurement. What is not settled by then stays as declared
/// and is asked by the next load.
const BUDGET: Duration = Duration::from_millis(500);
/// Rows of a chunk that are asked about where the device works with the host. A launch over a whole
/// chunk takes seconds there, and the answer for fewer rows serves for more.
const ROWS_WITH_HOST: u32 = 16;
/// Products of the largest launch that is timed there: its slowest form takes about a tenth of a second.
const PRODUCTS_WITH_HOST: u64 = 1 << 28;

/// Most rows of the chunk that questions are asked about.
pub(super) fn rows_asked(registry: &dyn Registry, chunk: u32) -> u32 {
    if registry.supports(Capability::ASYNC) { chunk } else { chunk.min(ROWS_WITH_HOST) }
}

/// Settles the launches of some segments; what is lowered from here on goes by the answers. Weights stay
/// as they are resident.
///
/// # Errors
/// When no kernel serves a segment, or the device is lost.
pub(super) fn settle(
    runner: &mut Runner,
    tuning: &Tuning,
    segments: &[(Segment, Sizes)],
) -> Result<(), EngineError> {
    // Measuring has a queue of its own and reads weights that this one may still be copying.
    runner.queue.finish()?;
    let registry = &runner.registry;
    let supports = |capability| registry.supports(capability);
    let with_host = !supports(Capability::ASYNC);
    // What a busy processor is found to do best is not kept; every load would pay for it again. A device apart from the
    // host finds one launch's weights in its cache when they are read again and again, while a decode step reads all of
    // them from memory: such a bracket would choose rows that lose in the step. Until brackets go round over more weights
    // than the cache holds, what is declared stands there.
    let hold = if with_host { is_busy(registry.device()) } else { true };
    let _hold = hold.then(|| tuning.hold());
    let mut prewarm = Prewarm::new(tuning, registry.device(), &supports)?.within(BUDGET);
    let mut largest: Option<(FormatId, Problem)> = None;
    for (segment, sizes) in segments {
        for launch in &runner.lowered(*segment, sizes)?.launches {
            if with_host && products(&launch.problem) > PRODUCTS_WITH_HOST {
                continue;
            }
            let weight = |arg: usize| match launch.args.get(arg)? {
                Place::Weight(key) => runner.residency.span(key).cloned(),
                _ => None,
            };
            unless_lost(launch, prewarm.launch(launch.row, &launch.problem, &launch.scalars, &weight))?;
            if *segment == Segment::Body
                && let Some(format) = weight_format(registry, launch.row)
                && largest.is_none_or(|(_, known)| products(&known) < products(&launch.problem))
            {
                largest = Some((format, launch.problem));
            }
        }
    }
    if let Some((format, problem)) = largest.filter(|_| !hold) {
        let asked = prewarm.matrix_cores(format, &problem);
        asked.or_else(|error| if error.is_lost() { Err(error) } else { Ok(()) })?;
    }
    let answers = prewarm.finish();
    runner.registry.settle(answers);
    Ok(())
}

/// What cannot be settled stays as declared, and is said; a lost device ends the load.
fn unless_lost(launch: &Placed, asked: Result<(), TuneError>) -> Result<(), TuneError> {
    match asked {
        Err(error) if !error.is_lost() => {
            tracing::warn!(target: "cajeta::tune", "{} stays as declared: {error}", launch.what);
            Ok(())
        }
        asked => asked,
    }
}

/// Whether others hold so much of the device that a measurement would not be kept.
fn is_busy(device: &Device) -> bool {
    let now = device.backend().devices().ok();
    let facts = now.as_ref().and_then(|devices| devices.get(device.index() as usize));
    facts
        .and_then(|facts| facts.get(Fact::FOREIGN_LOAD))
        .is_some_and(|percent| percent >= FOREIGN_PERCENT_MAX)
}

fn products(problem: &Problem) -> u64 {
    let Problem { m, n, k, .. } = *problem;
    m.saturating_mul(n).saturating_mul(k)
}

/// The format of the weight that a row reads, if it reads one.
fn weight_format(registry: &dyn Registry, row: usize) -> Option<FormatId> {
    let row = registry.rows().get(row)?;
    row.args.iter().map(|spec| spec.format).find(|&format| format != FormatId::NONE)
}
