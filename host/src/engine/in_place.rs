//! A model's launches where measuring finds them: over its resident weights, on a sequence that stands deep
//! in its context, in a work space that nobody else uses.

use std::collections::BTreeSet;
use std::rc::Rc;

use cajeta_abi::{Capability, Problem};
use cajeta_catalog::op::Op;
use cajeta_plugin_host::{LaunchSpec, Queue};

use super::error::EngineError;
use super::noise::{fill_planes, fill_with_floats};
use super::registry::DeviceRegistry;
use super::runner::Runner;
use super::state::StepBuffer;
use super::workspace::Workspace;
use crate::lower::{self, Place, Placed, Program, Segment, SeqValue, Sizes};
use crate::route::Registry;
use crate::tune::{Answers, ArgSet, Segments, Site, TuneError};

/// Same noise for arms that are compared by different loads.
const NOISE_SEED: u64 = 1;
/// Segments of a bracket; no bracket is longer.
const SEGMENTS: usize = 20;

/// One segment of a model, as it would run.
pub(super) struct StepSite<'a> {
    runner: &'a Runner,
    /// The device's rows under the answers that are tried.
    trial: &'a mut DeviceRegistry,
    queue: &'a mut Queue,
    workspace: &'a mut Workspace,
    noise: &'a mut u64,
    segment: Segment,
    sizes: Sizes,
    /// As it would run now.
    pub program: Rc<Program>,
    step_bytes: u64,
}

/// The parts of a site that outlive one segment.
pub(super) struct Ground {
    trial: DeviceRegistry,
    queue: Queue,
    workspace: Workspace,
    /// Bytes of each plane of the cache that are yet to be filled.
    noise: u64,
}

impl Ground {
    /// A ground for the segments of a runner. `noise` bytes of each plane of its cache are filled before
    /// anything is timed.
    ///
    /// # Errors
    /// When the device fails or lacks the memory.
    pub(super) fn new(runner: &Runner, noise: u64) -> Result<Ground, EngineError> {
        let device = runner.registry.device().clone();
        let hidden = runner.hidden_bytes();
        let queue = device.queue()?;
        let workspace = Workspace::new(&device, hidden, false)?;
        Ok(Ground { trial: runner.registry.apart(), queue, workspace, noise })
    }

    /// A segment under some answers. The state and the cache it reads are the runner's own.
    ///
    /// # Errors
    /// When no kernel serves the segment, or the device fails.
    pub(super) fn site<'a>(
        &'a mut self,
        runner: &'a Runner,
        segment: Segment,
        sizes: Sizes,
        answers: &Answers,
    ) -> Result<StepSite<'a>, EngineError> {
        let Ground { trial, queue, workspace, noise } = self;
        trial.settle(answers.clone());
        let program = lower::lower(trial, &runner.plan, segment, &sizes, &|key| runner.residency.has(key))?;
        let program = Rc::new(program);
        let step_bytes = weight_bytes(runner, &program);
        Ok(StepSite { runner, trial, queue, workspace, noise, segment, sizes, program, step_bytes })
    }
}

impl StepSite<'_> {
    /// Makes room for a program; what is there to read are ordinary numbers.
    fn fit(&mut self, program: &Program) -> Result<(), EngineError> {
        let noise = std::mem::take(self.noise);
        if noise > 0 {
            let (kv, layers) = (&self.runner.kv, self.runner.plan.kv.len() as u32);
            fill_planes(self.queue, kv, layers, NOISE_SEED, noise)?;
        }
        if self.workspace.fit(self.queue, program)?
            && let Some(arena) = self.workspace.arena(0, program.arena)?
        {
            fill_with_floats(self.queue, &arena)?;
        }
        Ok(self.queue.finish()?)
    }

    fn specs(&self, launches: &[&Placed]) -> Result<Vec<LaunchSpec>, EngineError> {
        let state: &StepBuffer = self.runner.state_of(self.segment);
        launches.iter().map(|launch| self.runner.spec(launch, state, self.workspace)).collect()
    }

    fn lowered(&mut self, answers: &Answers) -> Result<Program, EngineError> {
        self.trial.settle(answers.clone());
        let (runner, sizes) = (self.runner, &self.sizes);
        let resident = |key: &lower::WeightKey| runner.residency.has(key);
        Ok(lower::lower(self.trial, &runner.plan, self.segment, sizes, &resident)?)
    }
}

impl StepSite<'_> {
    /// The step under each of some answers, but for what moves the state: launches of such a device start
    /// while those before them end, so that segments by themselves say little about the step.
    fn steps(&mut self, answers: &[Answers]) -> Result<Vec<Segments>, EngineError> {
        let mut forms = Vec::with_capacity(answers.len());
        for answers in answers {
            let program = self.lowered(answers)?;
            self.fit(&program)?;
            let rows = self.runner.registry.rows();
            let stays = |launch: &&Placed| {
                rows.get(launch.row)
                    .is_some_and(|row| row.steps.iter().all(|step| step.op != Op::Advance.id()))
            };
            let launches: Vec<&Placed> = program.launches.iter().filter(stays).collect();
            forms.push(vec![self.specs(&launches)?]);
        }
        Ok(forms)
    }
}

impl Site for StepSite<'_> {
    fn sets(&mut self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<Vec<ArgSet>, TuneError> {
        let program = Rc::clone(&self.program);
        self.fit(&program).map_err(untimed)?;
        let alike = |launch: &&Placed| is(launch, row, problem, scalars);
        let launches: Vec<&Placed> = program.launches.iter().filter(alike).take(SEGMENTS).collect();
        let specs = self.specs(&launches).map_err(untimed)?;
        Ok(specs.into_iter().map(|spec| spec.args).collect())
    }

    fn forms(
        &mut self,
        row: usize,
        problem: &Problem,
        scalars: &[u8],
        answers: &[Answers],
    ) -> Result<Option<Vec<Segments>>, TuneError> {
        if self.segment == Segment::Step && self.runner.registry.supports(Capability::ASYNC) {
            return self.steps(answers).map(Some).map_err(untimed);
        }
        let Some(first) = answers.first() else { return Ok(None) };
        let fused = self.lowered(first).map_err(untimed)?;
        let alike = |launch: &&Placed| is(launch, row, problem, scalars);
        let written = fused.launches.iter().filter(alike).take(SEGMENTS);
        let written: Vec<BTreeSet<SeqValue>> =
            written.map(|launch| launch.writes.iter().copied().collect()).collect();
        if written.is_empty() {
            return Ok(None);
        }
        let rows = self.runner.registry.rows();
        let is_pack = |launch: &Placed| {
            rows.get(launch.row).is_some_and(|row| row.steps.iter().all(|step| step.op == Op::Pack.id()))
        };
        let mut forms = Vec::with_capacity(answers.len());
        for answers in answers {
            let program = self.lowered(answers).map_err(untimed)?;
            self.fit(&program).map_err(untimed)?;
            let mut segments = Vec::with_capacity(written.len());
            for values in &written {
                let of_plan = |value: &SeqValue| value.0 < self.runner.plan.values.len();
                let Some(launches) = serving(&program.launches, values, &is_pack, &of_plan) else {
                    return Ok(None);
                };
                segments.push(self.specs(&launches).map_err(untimed)?);
            }
            forms.push(segments);
        }
        Ok(Some(forms))
    }

    fn step_bytes(&self) -> u64 {
        self.step_bytes
    }
}

fn untimed(error: EngineError) -> TuneError {
    match error {
        EngineError::Device(error) => TuneError::Device(error),
        other => TuneError::Untimed { what: "the step it is part of".to_owned(), why: other.to_string() },
    }
}

fn is(launch: &Placed, row: usize, problem: &Problem, scalars: &[u8]) -> bool {
    launch.row == row && launch.problem == *problem && launch.scalars == scalars
}

/// The launches that write some values, and the packs that nothing but these launches reads. Nothing when one
/// of them computes more of the plan, or none is there.
fn serving<'p>(
    launches: &'p [Placed],
    values: &BTreeSet<SeqValue>,
    is_pack: &dyn Fn(&Placed) -> bool,
    of_plan: &dyn Fn(&SeqValue) -> bool,
) -> Option<Vec<&'p Placed>> {
    let writes = |launch: &&Placed| launch.writes.iter().any(|value| values.contains(value));
    // What is no value of the plan is a pack, fused with what writes the plain form.
    let more = |launch: &Placed| launch.writes.iter().any(|value| of_plan(value) && !values.contains(value));
    if launches.iter().filter(writes).any(more) {
        return None;
    }
    let only_for_them = |pack: &Placed| {
        let reads = |launch: &&Placed| launch.reads.iter().any(|value| pack.writes.contains(value));
        launches.iter().filter(reads).all(|launch| writes(&launch))
    };
    let serves = |launch: &&Placed| writes(launch) || (is_pack(launch) && only_for_them(launch));
    let serving: Vec<&Placed> = launches.iter().filter(serves).collect();
    serving.iter().any(writes).then_some(serving)
}

/// Bytes of weights that a program reads.
fn weight_bytes(runner: &Runner, program: &Program) -> u64 {
    let keys = program.launches.iter().flat_map(|launch| &launch.args).filter_map(|place| match place {
        Place::Weight(key) => Some(key),
        _ => None,
    });
    let keys: BTreeSet<&lower::WeightKey> = keys.collect();
    let bytes = keys.into_iter().filter_map(|key| runner.residency.span(key)).map(|span| span.len());
    bytes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A launch of row `row` that reads and writes these values.
    fn launch(row: usize, reads: &[usize], writes: &[usize]) -> Placed {
        let values = |of: &[usize]| of.iter().map(|&value| SeqValue(value)).collect();
        Placed {
            row,
            split: 1,
            problem: Problem::default(),
            args: Vec::new(),
            scalars: Vec::new(),
            scratch: 0,
            semaphores: 0,
            what: String::new(),
            reads: values(reads),
            writes: values(writes),
        }
    }

    /// The rows of the launches that serve; row 9 packs, values from 100 up are none of the plan's.
    fn rows(launches: &[Placed], values: &[usize]) -> Option<Vec<usize>> {
        let values = values.iter().map(|&value| SeqValue(value)).collect();
        let found = serving(launches, &values, &|launch| launch.row == 9, &|value| value.0 < 100);
        found.map(|launches| launches.iter().map(|launch| launch.row).collect())
    }

    #[test]
    fn a_segment_is_what_writes_its_values() {
        let parts =
            [launch(1, &[0], &[1]), launch(2, &[0], &[2]), launch(3, &[1, 2], &[3]), launch(4, &[3], &[4])];
        assert_eq!(rows(&parts, &[1, 2, 3]), Some(vec![1, 2, 3]));
        let fused = [launch(5, &[0], &[1, 2, 3]), launch(4, &[3], &[4])];
        assert_eq!(rows(&fused, &[1, 2, 3]), Some(vec![5]));
        assert_eq!(rows(&fused, &[7]), None, "nobody writes it");
    }

    #[test]
    fn a_pack_belongs_to_it_when_nothing_else_reads_it() {
        let shared = [launch(9, &[0], &[100]), launch(1, &[100], &[1]), launch(2, &[100], &[2])];
        assert_eq!(rows(&shared, &[1, 2]), Some(vec![9, 1, 2]));
        assert_eq!(rows(&shared, &[1]), Some(vec![1]));
        let written_along = [launch(1, &[0], &[1, 101]), launch(2, &[101], &[2])];
        assert_eq!(rows(&written_along, &[1]), Some(vec![1]), "the fused pack is no value of the plan");
    }

    #[test]
    fn launches_that_compute_more_than_the_segment_compare_with_nothing() {
        let straddling = [launch(1, &[0], &[1]), launch(2, &[1], &[2, 3])];
        assert_eq!(rows(&straddling, &[1, 2]), None);
    }
}
