//! Settles what the launches of a model ask, in the place where its steps have them, before anything is
//! decoded.

use std::rc::Rc;
use std::time::Duration;

use cajeta_abi::{Capability, Problem, Row};
use cajeta_catalog::kv::BLOCK_POSITIONS;
use cajeta_catalog::state::SampleParams;
use cajeta_model_arch::plan::Half;

use super::error::EngineError;
use super::in_place::Ground;
use super::runner::Runner;
use super::state::DecodeRow;
use crate::lower::{Placed, Segment, Sizes};
use crate::route::Registry;
use crate::tune::{Answers, Prewarm, TuneError, Tuning};

/// Time after which a load begins no further measurement: as long as the first load of a model may take
/// for its weights. What is not settled by then stays as declared and is asked by the next load.
const BUDGET: Duration = Duration::from_secs(3);
/// Rows of a short chunk that are asked about first where the device works with the host: a launch over a
/// whole one may take too long to be timed there.
const ROWS_WITH_HOST: u32 = 16;
/// Products of the largest launch that is timed there: its slowest form takes about two tenths of a second.
const PRODUCTS_WITH_HOST: u64 = 1 << 29;
/// Positions that attention looks back over while it is timed, where the context has as many.
pub(super) const DEPTH: u32 = 2048;
/// Most bytes of the cache that are filled for that.
const NOISE_BYTES: u64 = 256 << 20;
/// How often what is lowered under new answers is looked at for new questions: a fusion that lost leaves
/// its parts to be asked about, and nothing is behind those.
pub const PASSES: usize = 3;

/// The rows of chunks that questions are asked about.
pub(super) fn rows_asked(registry: &dyn Registry, chunk: u32) -> Vec<u32> {
    let few = (!registry.supports(Capability::ASYNC)).then_some(ROWS_WITH_HOST).filter(|&few| few < chunk);
    few.into_iter().chain([chunk]).collect()
}

/// Settles the launches of some segments; what is lowered from here on goes by the answers. Weights stay
/// as they are resident, and the cache is empty again. Whoever is patient has all of it timed, however long
/// that takes and however busy the device is.
///
/// # Errors
/// When no kernel serves a segment, or the device is lost.
pub(super) fn settle(
    runner: &mut Runner,
    tuning: &Tuning,
    segments: &[(Segment, Sizes)],
    poisoned: bool,
    patient: bool,
) -> Result<(), EngineError> {
    // What a busy device is found to do best is not kept; every load would pay for it again.
    let _hold = (!patient && tuning.is_busy()).then(|| tuning.hold());
    let depth = runner.ctx.min(DEPTH);
    let noise = if poisoned { 0 } else { runner.noise_bytes(depth) };
    let settled = ask(runner, tuning, segments, depth, noise, patient);
    runner.discard_steps()?;
    for slot in 0..runner.max_seqs() as usize {
        runner.truncate(slot, 0);
    }
    let answers = settled?;
    runner.registry.settle(answers);
    Ok(())
}

fn ask(
    runner: &mut Runner,
    tuning: &Tuning,
    segments: &[(Segment, Sizes)],
    depth: u32,
    noise: u64,
    patient: bool,
) -> Result<Answers, EngineError> {
    let with_host = !runner.registry.supports(Capability::ASYNC);
    let device = runner.registry.device().clone();
    let registry = runner.registry.apart();
    let usable = |row: &Row| registry.can_run(row);
    let mut prewarm = Prewarm::new(tuning, &device, &usable)?.knowing(runner.registry.answers().clone());
    if !patient {
        prewarm = prewarm.within(BUDGET);
    }
    let mut ground = match Ground::new(runner, noise) {
        Ok(ground) => ground,
        // It takes memory that nobody planned for: without it nothing is asked.
        Err(EngineError::Device(error)) if error.is_out_of_memory() => {
            tracing::warn!(target: "cajeta::tune", "no room to measure in: all kernels stay as declared: {error}");
            return Ok(prewarm.finish());
        }
        Err(error) => return Err(error),
    };
    for _ in 0..PASSES {
        let known = prewarm.answers().len();
        for (segment, sizes) in segments {
            let sizes = runner.stand_deep(*segment, sizes, depth)?;
            // Measuring has a queue of its own and reads what this one may still be writing.
            runner.queue.finish()?;
            let mut site = ground.site(runner, *segment, sizes, prewarm.answers())?;
            let program = Rc::clone(&site.program);
            for launch in &program.launches {
                // What takes long is not timed; what is known about it answers all the same.
                let long = with_host && !patient && !is_short(&launch.problem);
                let _hold = long.then(|| tuning.hold());
                let Placed { row, problem, scalars, .. } = launch;
                TuneError::unless_lost(&launch.what, prewarm.launch(*row, problem, scalars, &mut site))?;
            }
        }
        if prewarm.answers().len() == known {
            break;
        }
    }
    Ok(prewarm.finish())
}

impl Runner {
    /// Bytes of each plane that sequences of `depth` positions have in it, within bounds.
    fn noise_bytes(&self, depth: u32) -> u64 {
        let planes = (self.plan.kv.len() as u64).saturating_mul(2).max(1);
        let blocks = u64::from(depth.div_ceil(BLOCK_POSITIONS)) * u64::from(self.max_seqs());
        let plane = self.kv.plane(0, Half::K).map_or(0, |plane| plane.len());
        let share = plane / u64::from(self.sequences.n_blocks().max(1));
        share.saturating_mul(blocks).min(NOISE_BYTES / planes)
    }

    /// Writes a state whose sequences are `depth` positions long when a segment is done, and answers the
    /// sizes of the segment on it.
    fn stand_deep(&mut self, segment: Segment, sizes: &Sizes, depth: u32) -> Result<Sizes, EngineError> {
        if segment == Segment::Step {
            let row = DecodeRow { token: 0, position: depth - 1, sampling: SampleParams::GREEDY };
            self.begin_decode(&vec![row; sizes.seqs as usize])?;
            return Ok(self.decode_sizes(sizes.seqs, depth));
        }
        let rows = sizes.rows.min(depth);
        let wanted: Vec<u32> = (rows.saturating_sub(sizes.out_rows)..rows).collect();
        self.write_chunk(0, &vec![0; rows as usize], depth - rows, &wanted)
    }
}

fn is_short(problem: &Problem) -> bool {
    let Problem { m, n, k, .. } = *problem;
    m.saturating_mul(n).saturating_mul(k) <= PRODUCTS_WITH_HOST
}
