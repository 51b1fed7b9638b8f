//! Runs steps of one sequence: prefill chunks, the tail, decode steps, each from a prepared list.

use std::collections::HashMap;
use std::ops::Range;

use cajeta_catalog::state::{SampleParams, StepLayout};
use cajeta_model_arch::plan::Plan;
use cajeta_plugin_host::{LaunchSpec, List, Queue};

use super::error::EngineError;
use super::registry::DeviceRegistry;
use super::residency::Residency;
use super::state::StepBuffer;
use super::workspace::Workspace;
use crate::kv::{BlockPool, BlockTable, KvPool};
use crate::lower::{self, Place, Placed, Program, Segment, Sizes};

/// Lists kept prepared; the oldest go when there are more.
const MAX_LISTS: usize = 48;
/// The smallest context bucket.
const MIN_BUCKET: u32 = 256;

struct Prepared {
    list: List,
    logits: Option<Range<u64>>,
    last_used: u64,
}

/// Everything a step touches on the device.
pub struct Runner {
    /// The device's rows and answers.
    pub registry: DeviceRegistry,
    /// The one queue.
    pub queue: Queue,
    /// The model's ops.
    pub plan: Plan,
    /// The weights.
    pub residency: Residency,
    pub(super) kv: KvPool,
    pub(super) blocks: BlockPool,
    pub(super) table: BlockTable,
    pub(super) state: StepBuffer,
    pub(super) workspace: Workspace,
    pub(super) ctx: u32,
    lists: HashMap<(Segment, Sizes), Prepared>,
    uses: u64,
}

/// The parts a runner is made of.
pub(super) struct Parts {
    pub registry: DeviceRegistry,
    pub queue: Queue,
    pub plan: Plan,
    pub residency: Residency,
    pub kv: KvPool,
    pub n_blocks: u32,
    pub state: StepBuffer,
    pub workspace: Workspace,
    pub ctx: u32,
}

impl Runner {
    pub(super) fn new(parts: Parts) -> Runner {
        Runner {
            registry: parts.registry,
            queue: parts.queue,
            plan: parts.plan,
            residency: parts.residency,
            kv: parts.kv,
            blocks: BlockPool::new(parts.n_blocks),
            table: BlockTable::default(),
            state: parts.state,
            workspace: parts.workspace,
            ctx: parts.ctx,
            lists: HashMap::new(),
            uses: 0,
        }
    }

    /// Sets how tokens are drawn from here on.
    pub fn set_sampling(&mut self, params: &SampleParams) -> Result<(), EngineError> {
        self.state.write_sampling(&mut self.queue, params)
    }

    /// Runs the layers over tokens at `position ..`, appending to the cache.
    pub fn prefill(&mut self, tokens: &[u32], position: u32, out_rows: &[u32]) -> Result<(), EngineError> {
        let n_rows = tokens.len() as u32;
        self.reserve(position + n_rows)?;
        self.state.write_rows(&mut self.queue, Some(tokens), n_rows, position, out_rows)?;
        let context = self.bucket(position + n_rows);
        let sizes = self.sizes(n_rows, out_rows.len() as u32, context);
        self.run(Segment::Body, sizes).map(|_| ())
    }

    /// Draws the next token from the last row of a prefill of `n_rows` rows ending at `length`.
    pub fn draw_after_prefill(&mut self, n_rows: u32, length: u32) -> Result<u32, EngineError> {
        // No op of the tail looks at the context.
        let sizes = self.sizes(n_rows, 1, 0);
        self.run(Segment::TailToken, sizes)?;
        self.sampled(length)
    }

    /// Logits of the wanted rows of a prefill, `[out_rows][n_vocab]`.
    pub fn logits(&mut self, n_rows: u32, out_rows: u32, into: &mut Vec<f32>) -> Result<(), EngineError> {
        let sizes = self.sizes(n_rows, out_rows, 0);
        let range = self.run(Segment::Tail, sizes)?.unwrap_or(0..0);
        into.resize((range.end - range.start) as usize / 4, 0.0);
        if let Some(span) = self.workspace.arena(range.start, range.end - range.start)? {
            self.queue.download(&span, bytemuck::cast_slice_mut(into))?;
        }
        Ok(())
    }

    /// Makes the state that of a decode step whose token the device drew and whose row is at `position`.
    pub fn begin_decode(&mut self, position: u32) -> Result<(), EngineError> {
        self.state.write_rows(&mut self.queue, None, 1, position, &[0])
    }

    /// Runs one decode step of the token at `position` and draws the next. The state moves itself.
    pub fn decode(&mut self, position: u32) -> Result<u32, EngineError> {
        self.reserve(position + 1)?;
        let sizes = self.sizes(1, 1, self.bucket(position + 1));
        self.run(Segment::Step, sizes)?;
        self.sampled(position + 1)
    }

    /// Positions that may be kept: the cache forgets what comes after.
    pub fn truncate(&mut self, positions: u32) {
        self.table.truncate(&mut self.blocks, positions);
    }

    /// The lowered form of a segment at some sizes, for people to read.
    pub fn lowered(&self, segment: Segment, sizes: &Sizes) -> Result<Program, EngineError> {
        let resident = |key: &lower::WeightKey| self.residency.has(key);
        Ok(lower::lower(&self.registry, &self.plan, segment, sizes, &resident)?)
    }

    /// Sizes of a step of one sequence.
    pub fn sizes(&self, rows: u32, out_rows: u32, context: u32) -> Sizes {
        Sizes { rows, out_rows, seqs: 1, context, state: self.state.layout() }
    }

    /// The context a list is prepared for when it must reach `positions`: few lists serve all lengths.
    fn bucket(&self, positions: u32) -> u32 {
        positions.next_power_of_two().clamp(MIN_BUCKET, self.ctx.max(MIN_BUCKET))
    }

    fn sampled(&mut self, position: u32) -> Result<u32, EngineError> {
        match self.state.read_sampled(&mut self.queue)? {
            // What a draw answers when no logit is a number.
            u32::MAX => Err(EngineError::NotANumber { position: position as usize }),
            token => Ok(token),
        }
    }

    fn reserve(&mut self, positions: u32) -> Result<(), EngineError> {
        if positions > self.ctx || !self.table.reserve(&mut self.blocks, positions) {
            let tokens = positions as usize;
            return Err(EngineError::PromptTooLong { tokens, ctx: self.ctx, trained: self.ctx });
        }
        self.state.write_blocks(&mut self.queue, self.table.blocks())
    }

    fn run(&mut self, segment: Segment, sizes: Sizes) -> Result<Option<Range<u64>>, EngineError> {
        self.uses += 1;
        if !self.lists.contains_key(&(segment, sizes)) {
            let prepared = self.prepare(segment, &sizes)?;
            if self.lists.len() >= MAX_LISTS
                && let Some(oldest) =
                    self.lists.iter().min_by_key(|(_, list)| list.last_used).map(|(key, _)| *key)
            {
                self.lists.remove(&oldest);
            }
            self.lists.insert((segment, sizes), prepared);
        }
        let uses = self.uses;
        let Some(prepared) = self.lists.get_mut(&(segment, sizes)) else { return Ok(None) };
        prepared.last_used = uses;
        let ticket = self.queue.submit(&prepared.list)?;
        let logits = prepared.logits.clone();
        self.queue.wait(ticket)?;
        Ok(logits)
    }

    fn prepare(&mut self, segment: Segment, sizes: &Sizes) -> Result<Prepared, EngineError> {
        let program = self.lowered(segment, sizes)?;
        if self.workspace.fit(&mut self.queue, &program)? {
            self.lists.clear();
        }
        let specs = program.launches.iter().map(|launch| self.spec(launch));
        let specs = specs.collect::<Result<Vec<LaunchSpec>, EngineError>>()?;
        tracing::debug!(target: "cajeta::lower", ?segment, rows = sizes.rows, launches = specs.len(), "list prepared");
        let list = self.registry.device().list(&specs)?;
        Ok(Prepared { list, logits: program.logits, last_used: self.uses })
    }

    fn spec(&self, launch: &Placed) -> Result<LaunchSpec, EngineError> {
        let mut args = Vec::with_capacity(launch.args.len());
        for place in &launch.args {
            args.push(match place {
                Place::Arena(range) => self.workspace.arena(range.start, range.end - range.start)?,
                Place::Hidden(bytes) => Some(self.workspace.hidden.part(0, *bytes)?),
                Place::Weight(key) => self.residency.span(key).cloned(),
                Place::State(range) => Some(self.state.span(range.start, range.end - range.start)?),
                Place::Plane(layer, half) => self.kv.plane(*layer, *half).cloned(),
                Place::Absent => None,
            });
        }
        Ok(LaunchSpec {
            row: launch.row,
            split: launch.split,
            problem: launch.problem,
            args,
            scalars: launch.scalars.clone(),
            scratch: self.workspace.scratch(launch.scratch),
            semaphores: self.workspace.semaphores(launch.semaphores),
        })
    }
}

/// The state layout of one sequence with prefill chunks of `chunk` rows and `ctx` positions.
pub(super) fn step_layout(chunk: u32, ctx: u32) -> StepLayout {
    StepLayout { max_rows: chunk, max_seqs: 1, max_blocks: ctx.div_ceil(cajeta_catalog::kv::BLOCK_POSITIONS) }
}
