//! Runs segments from prepared lists: prefill chunks of one sequence, their tail, and what
//! [`decode`](super::decode) needs for steps of many.

use std::ops::Range;

use cajeta_abi::Span;
use cajeta_catalog::kv::BLOCK_POSITIONS;
use cajeta_catalog::state::{SampleParams, StepLayout};
use cajeta_model_arch::plan::Plan;
use cajeta_plugin_host::{LaunchSpec, Queue, Ticket};

use super::decode::Decode;
use super::error::EngineError;
use super::lists::{Lists, Prepared};
use super::registry::DeviceRegistry;
use super::residency::Residency;
use super::sequences::Sequences;
use super::state::{StepBuffer, tokens};
use super::workspace::Workspace;
use crate::kv::KvPool;
use crate::lower::{self, Place, Placed, Program, Segment, Sizes};

/// The smallest context bucket.
const MIN_BUCKET: u32 = 256;

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
    pub(super) sequences: Sequences,
    /// The state of the sequence being prefilled, in its slot 0 whichever slot is the sequence's own.
    chunk: StepBuffer,
    pub(super) decode: Decode,
    workspace: Workspace,
    pub(super) ctx: u32,
    /// Whether work is queued while the work before it runs.
    pub(super) pipelined: bool,
    /// The chunk that may still be under way.
    chunk_before: Option<Ticket>,
    lists: Lists,
}

/// The parts a runner is made of.
pub(super) struct Parts {
    pub registry: DeviceRegistry,
    pub queue: Queue,
    pub plan: Plan,
    pub residency: Residency,
    pub kv: KvPool,
    pub sequences: Sequences,
    pub chunk: StepBuffer,
    pub decode: Decode,
    pub workspace: Workspace,
    pub ctx: u32,
    pub pipelined: bool,
}

impl Runner {
    pub(super) fn new(parts: Parts) -> Runner {
        Runner {
            registry: parts.registry,
            queue: parts.queue,
            plan: parts.plan,
            residency: parts.residency,
            kv: parts.kv,
            sequences: parts.sequences,
            chunk: parts.chunk,
            decode: parts.decode,
            workspace: parts.workspace,
            ctx: parts.ctx,
            pipelined: parts.pipelined,
            chunk_before: None,
            lists: Lists::default(),
        }
    }

    /// Sets how the draws after prefills are made from here on.
    pub fn set_sampling(&mut self, params: &SampleParams) -> Result<(), EngineError> {
        self.chunk.write_sampling(&mut self.queue, params)
    }

    /// Runs the layers over tokens of the sequence in `slot` at `position ..`, appending to its cache.
    /// Where work is pipelined it returns once the chunk before is done: at most one is under way.
    ///
    /// # Errors
    /// When the slot has no room for the tokens, no kernel serves the chunk, or the device fails.
    pub fn prefill(
        &mut self,
        slot: usize,
        tokens: &[u32],
        position: u32,
        out_rows: &[u32],
    ) -> Result<(), EngineError> {
        let sizes = self.write_chunk(slot, tokens, position, out_rows)?;
        let (ticket, _) = self.submit(Segment::Body, sizes)?;
        let before = self.chunk_before.replace(ticket);
        let awaited = if self.pipelined { before } else { Some(ticket) };
        awaited.map_or(Ok(()), |ticket| Ok(self.queue.wait(ticket)?))
    }

    /// Runs a chunk as [`Runner::prefill`] does, with a clock around every launch.
    ///
    /// # Errors
    /// As [`Runner::prefill`]; when the device has no spans.
    pub fn profile_chunk(
        &mut self,
        slot: usize,
        tokens: &[u32],
        position: u32,
    ) -> Result<Vec<Span>, EngineError> {
        let sizes = self.write_chunk(slot, tokens, position, &[tokens.len().saturating_sub(1) as u32])?;
        let prepared = self.list(Segment::Body, sizes)?;
        let ticket = self.queue.submit_with_spans(&prepared.list)?;
        self.queue.wait(ticket)?;
        Ok(self.queue.spans(ticket, prepared.list.len())?)
    }

    /// Draws the next token from the last row of a prefill of `n_rows` rows ending at `length`.
    pub fn draw_after_prefill(&mut self, n_rows: u32, length: u32) -> Result<u32, EngineError> {
        // No op of the tail looks at the context.
        let sizes = self.sizes(n_rows, 1, 0);
        self.submit(Segment::TailToken, sizes)?;
        let ticket = self.chunk.sampled_later(&mut self.queue, 1)?;
        match tokens(&self.queue.take(ticket)?).first() {
            // What a draw answers when no logit is a number.
            None | Some(&u32::MAX) => Err(EngineError::NotANumber { position: length as usize }),
            Some(&token) => Ok(token),
        }
    }

    /// Logits of the wanted rows of a prefill, `[out_rows][n_vocab]`.
    pub fn logits(&mut self, n_rows: u32, out_rows: u32, into: &mut Vec<f32>) -> Result<(), EngineError> {
        let sizes = self.sizes(n_rows, out_rows, 0);
        let (_, range) = self.submit(Segment::Tail, sizes)?;
        let range = range.unwrap_or(0..0);
        into.resize((range.end - range.start) as usize / 4, 0.0);
        if let Some(span) = self.workspace.arena(range.start, range.end - range.start)? {
            self.queue.download(&span, bytemuck::cast_slice_mut(into))?;
        }
        Ok(())
    }

    /// Positions of a slot that may be kept: its cache forgets what comes after.
    pub fn truncate(&mut self, slot: usize, positions: u32) {
        self.sequences.truncate(slot, positions);
    }

    /// The lowered form of a segment at some sizes, for people to read.
    pub fn lowered(&self, segment: Segment, sizes: &Sizes) -> Result<Program, EngineError> {
        let resident = |key: &lower::WeightKey| self.residency.has(key);
        Ok(lower::lower(&self.registry, &self.plan, segment, sizes, &resident)?)
    }

    /// Sizes of a prefill chunk of one sequence.
    pub fn sizes(&self, rows: u32, out_rows: u32, context: u32) -> Sizes {
        Sizes { rows, out_rows, seqs: 1, context, state: self.chunk.layout() }
    }

    /// The context a list is prepared for when it must reach `positions`: few lists serve all lengths.
    pub(super) fn bucket(&self, positions: u32) -> u32 {
        bucket(positions, self.ctx)
    }

    /// The list of a segment, prepared now if it is not yet.
    pub(super) fn list(&mut self, segment: Segment, sizes: Sizes) -> Result<Prepared, EngineError> {
        if let Some(prepared) = self.lists.get(segment, &sizes) {
            return Ok(prepared);
        }
        let prepared = self.prepare(segment, &sizes)?;
        self.lists.insert(segment, sizes, prepared.clone());
        Ok(prepared)
    }

    /// Makes room for a chunk and describes it to the device.
    pub(super) fn write_chunk(
        &mut self,
        slot: usize,
        tokens: &[u32],
        position: u32,
        out_rows: &[u32],
    ) -> Result<Sizes, EngineError> {
        let n_rows = tokens.len() as u32;
        let length = position.saturating_add(n_rows);
        self.sequences.reserve(slot, length)?;
        self.chunk.write_blocks(&mut self.queue, 0, self.sequences.blocks(slot))?;
        self.chunk.write_chunk(&mut self.queue, tokens, position, out_rows)?;
        Ok(self.sizes(n_rows, out_rows.len() as u32, self.bucket(length)))
    }

    /// Queues a segment; answers where in the arena its logits will be, if it computes them.
    fn submit(
        &mut self,
        segment: Segment,
        sizes: Sizes,
    ) -> Result<(Ticket, Option<Range<u64>>), EngineError> {
        let prepared = self.list(segment, sizes)?;
        Ok((self.queue.submit(&prepared.list)?, prepared.logits))
    }

    fn prepare(&mut self, segment: Segment, sizes: &Sizes) -> Result<Prepared, EngineError> {
        let program = self.lowered(segment, sizes)?;
        let resident = |key: &lower::WeightKey| self.residency.has(key);
        lower::announce(&self.registry, &self.plan, segment, sizes, &resident);
        if self.workspace.fit(&mut self.queue, &program)? {
            self.lists.clear();
        }
        let state = self.state_of(segment);
        let specs = program.launches.iter().map(|launch| self.spec(launch, state, &self.workspace));
        let specs = specs.collect::<Result<Vec<LaunchSpec>, EngineError>>()?;
        tracing::debug!(target: "cajeta::lower", ?segment, rows = sizes.rows, launches = specs.len(), "list prepared");
        let list = self.registry.device().list(&specs)?;
        Ok(Prepared { list, logits: program.logits })
    }

    /// The state that the launches of a segment read.
    pub(super) fn state_of(&self, segment: Segment) -> &StepBuffer {
        if segment == Segment::Step { &self.decode.state } else { &self.chunk }
    }

    /// Bytes of the last hidden state at most.
    pub(super) fn hidden_bytes(&self) -> u64 {
        self.workspace.hidden.len()
    }

    /// A launch with its arguments where they are.
    ///
    /// # Errors
    /// When the work space is too small for it.
    pub(super) fn spec(
        &self,
        launch: &Placed,
        state: &StepBuffer,
        workspace: &Workspace,
    ) -> Result<LaunchSpec, EngineError> {
        let mut args = Vec::with_capacity(launch.args.len());
        for place in &launch.args {
            args.push(match place {
                Place::Arena(range) => workspace.arena(range.start, range.end - range.start)?,
                Place::Hidden(range) => Some(workspace.hidden.part(range.start, range.end - range.start)?),
                Place::Weight(key) => self.residency.span(key).cloned(),
                Place::State(range) => Some(state.span(range.start, range.end - range.start)?),
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
            scratch: workspace.scratch(launch.scratch),
            semaphores: workspace.semaphores(launch.semaphores),
        })
    }
}

/// The context a launch is prepared for that must reach `positions` of `ctx`.
pub(super) fn bucket(positions: u32, ctx: u32) -> u32 {
    positions.checked_next_power_of_two().unwrap_or(u32::MAX).clamp(MIN_BUCKET, ctx.max(MIN_BUCKET))
}

/// The state layout of prefill chunks of `chunk` rows over `ctx` positions.
pub(super) fn chunk_layout(chunk: u32, ctx: u32) -> StepLayout {
    StepLayout { max_rows: chunk, max_seqs: 1, max_blocks: ctx.div_ceil(BLOCK_POSITIONS) }
}

/// The state layout of decode steps of `seqs` sequences over `ctx` positions.
pub(super) fn decode_layout(seqs: u32, ctx: u32) -> StepLayout {
    StepLayout { max_rows: seqs, max_seqs: seqs, max_blocks: ctx.div_ceil(BLOCK_POSITIONS) }
}
