//! Decode steps of N sequences from one prepared list whose state moves itself on the device.
//!
//! [`Runner::begin_decode`] writes the state once. Each [`Runner::submit_step`] then queues the same
//! list; only a sequence that comes within two blocks of its table's end sends a few table entries.
//! [`Runner::collect_step`] hands out the oldest step's tokens. A caller that submits a step before it
//! collects the one before keeps the device busy while the host thinks: the tokens of a step are read
//! in queue order, before the next step overwrites them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use cajeta_abi::Span;
use cajeta_catalog::state::StepLayout;
use cajeta_plugin_host::{Device, Queue, Ticket};

use super::error::EngineError;
use super::runner::Runner;
use super::state::{DecodeRow, StepBuffer, tokens};
use crate::lower::{Segment, Sizes};

/// The decode state and the steps under way on it.
pub(super) struct Decode {
    pub state: StepBuffer,
    /// Position of each sequence's next row, counting the steps that are under way.
    positions: Vec<u32>,
    flights: VecDeque<Flight>,
    /// The last step's completion, while the next is expected to follow it at once.
    before: Option<Ticket>,
    has_clock: bool,
}

/// A step under way.
struct Flight {
    list: Ticket,
    launches: usize,
    tokens: Ticket,
    /// Whether the queue had work when the step was queued.
    follows: bool,
    submit: Duration,
}

/// A finished decode step.
#[derive(Clone, Debug)]
pub struct Step {
    /// The token each sequence drew.
    pub tokens: Vec<u32>,
    /// Device time from the end of the step before to the end of this one; only where the device has
    /// a clock and this step was queued while the one before was under way.
    pub device: Option<Duration>,
    /// Host time spent queueing it.
    pub submit: Duration,
}

impl Decode {
    /// No sequences yet.
    pub(super) fn new(
        device: &Device,
        queue: &mut Queue,
        layout: StepLayout,
        has_clock: bool,
    ) -> Result<Decode, EngineError> {
        let state = StepBuffer::new(device, queue, layout)?;
        Ok(Decode { state, positions: Vec::new(), flights: VecDeque::new(), before: None, has_clock })
    }
}

impl Runner {
    /// Most sequences of a step.
    pub fn max_seqs(&self) -> u32 {
        self.decode.state.layout().max_seqs
    }

    /// Sizes of a decode step of `seqs` sequences that reach at most `context` positions.
    pub fn decode_sizes(&self, seqs: u32, context: u32) -> Sizes {
        let context = self.bucket(context);
        Sizes { rows: seqs, out_rows: seqs, seqs, context, state: self.decode.state.layout() }
    }

    /// Begins decoding: row `i` continues the sequence in slot `i`. Steps under way are forgotten.
    ///
    /// # Errors
    /// When there are more rows than slots, a position is past the context, or the device fails.
    pub fn begin_decode(&mut self, rows: &[DecodeRow]) -> Result<(), EngineError> {
        self.discard_steps()?;
        let limit = self.max_seqs();
        if rows.is_empty() || rows.len() > limit as usize {
            return Err(EngineError::Sequences { asked: rows.len(), limit });
        }
        for (slot, row) in rows.iter().enumerate() {
            self.sequences.reserve_ahead(slot, row.position.saturating_add(1))?;
            self.decode.state.write_blocks(&mut self.queue, slot, self.sequences.blocks(slot))?;
        }
        self.decode.positions = rows.iter().map(|row| row.position).collect();
        self.decode.state.write_decode(&mut self.queue, rows)
    }

    /// Queues a step of all sequences and moves on without waiting.
    ///
    /// # Errors
    /// When a sequence has no room left, no kernel serves the step, or the device fails.
    pub fn submit_step(&mut self) -> Result<(), EngineError> {
        self.queue_step(false)
    }

    /// Steps queued and not collected.
    pub fn steps_under_way(&self) -> usize {
        self.decode.flights.len()
    }

    /// Waits for the oldest step under way; nothing when there is none.
    ///
    /// # Errors
    /// When the device fails, or a sequence's logits are not numbers.
    pub fn collect_step(&mut self) -> Result<Option<Step>, EngineError> {
        let Some(flight) = self.decode.flights.pop_front() else { return Ok(None) };
        let under_way = self.decode.flights.len() as u32;
        let tokens = tokens(&self.queue.take(flight.tokens)?);
        let before = self.decode.before.replace(flight.list).filter(|_| flight.follows);
        let device = match before {
            Some(before) if self.decode.has_clock => Some(self.queue.elapsed(before, flight.list)?),
            _ => None,
        };
        // What a draw answers when no logit is a number.
        if let Some(slot) = tokens.iter().position(|&token| token == u32::MAX) {
            let next = self.decode.positions.get(slot).map_or(0, |next| next.saturating_sub(under_way));
            return Err(EngineError::NotANumber { position: next as usize });
        }
        Ok(Some(Step { tokens, device, submit: flight.submit }))
    }

    /// Waits for the steps under way and drops what they drew.
    ///
    /// # Errors
    /// When the device fails.
    pub fn discard_steps(&mut self) -> Result<(), EngineError> {
        self.decode.before = None;
        while let Some(flight) = self.decode.flights.pop_front() {
            self.queue.take(flight.tokens)?;
        }
        Ok(())
    }

    /// Runs one step with a clock around every launch, in the list's order. Slower than a step is: the
    /// launches do not overlap, and each is marked.
    ///
    /// # Errors
    /// As [`Runner::submit_step`]; when the device has no spans.
    pub fn profile_step(&mut self) -> Result<Vec<Span>, EngineError> {
        self.discard_steps()?;
        self.queue_step(true)?;
        let Some(flight) = self.decode.flights.pop_front() else { return Ok(Vec::new()) };
        self.queue.take(flight.tokens)?;
        Ok(self.queue.spans(flight.list, flight.launches)?)
    }

    fn queue_step(&mut self, spans: bool) -> Result<(), EngineError> {
        let begun = Instant::now();
        let seqs = self.decode.positions.len();
        for slot in 0..seqs {
            let length = self.decode.positions[slot].saturating_add(1);
            let known = self.sequences.blocks(slot).len();
            self.sequences.reserve_ahead(slot, length)?;
            // The device has the rest since the decode began.
            if self.sequences.blocks(slot).len() != known {
                self.decode.state.write_blocks(&mut self.queue, slot, self.sequences.blocks(slot))?;
            }
        }
        let longest = self.decode.positions.iter().max().map_or(0, |&position| position.saturating_add(1));
        let sizes = self.decode_sizes(seqs as u32, longest);
        let prepared = self.list(Segment::Step, sizes)?;
        let follows = !self.decode.flights.is_empty();
        let list = if spans {
            self.queue.submit_with_spans(&prepared.list)?
        } else {
            self.queue.submit(&prepared.list)?
        };
        let tokens = self.decode.state.sampled_later(&mut self.queue, seqs as u32)?;
        self.decode.positions.iter_mut().for_each(|position| *position += 1);
        let launches = prepared.list.len();
        self.decode.flights.push_back(Flight { list, launches, tokens, follows, submit: begun.elapsed() });
        Ok(())
    }
}
