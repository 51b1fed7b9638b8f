//! The host's pen on a step state: writes what the device cannot know by itself.
//!
//! Nothing here waits. Every write is queued in order with the steps around it, so a state may be
//! written while a step that reads the old one is still under way.

use cajeta_abi::MemoryKind;
use cajeta_catalog::state::{SampleParams, Section, StepHeader, StepLayout};
use cajeta_plugin_host::{Buffer, BufferSpan, Device, Queue, Ticket};

use super::error::EngineError;

/// One sequence of a decode step: the token to compute, where it stands, and how the next is drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DecodeRow {
    /// The token whose successor is drawn.
    pub token: u32,
    /// Its position; the cache holds all before it.
    pub position: u32,
    /// How the successor is drawn.
    pub sampling: SampleParams,
}

/// A step state on the device.
pub(super) struct StepBuffer {
    layout: StepLayout,
    buffer: Buffer,
    /// The block table of each slot as the device has it.
    tables: Vec<Vec<u32>>,
}

impl StepBuffer {
    /// An empty state.
    pub(super) fn new(
        device: &Device,
        queue: &mut Queue,
        layout: StepLayout,
    ) -> Result<StepBuffer, EngineError> {
        let buffer = device.alloc(layout.total_bytes(), MemoryKind::DEVICE, false)?;
        // Zeros everywhere: counters start at nothing, block tables at block 0.
        queue.upload(&buffer.whole(), &vec![0; layout.total_bytes() as usize])?;
        Ok(StepBuffer { layout, buffer, tables: vec![Vec::new(); layout.max_seqs as usize] })
    }

    /// Where the sections lie.
    pub(super) fn layout(&self) -> StepLayout {
        self.layout
    }

    /// Part of the state.
    pub(super) fn span(&self, offset: u64, len: u64) -> Result<BufferSpan, EngineError> {
        Ok(self.buffer.span(offset, len)?)
    }

    /// Describes a step of the one sequence in slot 0: its tokens at `position ..`. `out_rows` are the
    /// rows whose logits are wanted.
    pub(super) fn write_chunk(
        &mut self,
        queue: &mut Queue,
        tokens: &[u32],
        position: u32,
        out_rows: &[u32],
    ) -> Result<(), EngineError> {
        let n_rows = tokens.len() as u32;
        let positions: Vec<u32> = (position..position + n_rows).collect();
        self.write_counters(queue, n_rows, 1)?;
        self.write(queue, Section::Tokens, tokens)?;
        self.write(queue, Section::Positions, &positions)?;
        self.write(queue, Section::RowSeq, &vec![0; tokens.len()])?;
        self.write(queue, Section::SeqStart, &[0, n_rows])?;
        self.write(queue, Section::KvLen, &[position + n_rows])?;
        self.write(queue, Section::OutRows, out_rows)
    }

    /// Describes a decode step: row `i` is the sequence in slot `i`. `Advance` moves it from there.
    pub(super) fn write_decode(&mut self, queue: &mut Queue, rows: &[DecodeRow]) -> Result<(), EngineError> {
        let n = rows.len() as u32;
        let column = |value: fn(&DecodeRow) -> u32| rows.iter().map(value).collect::<Vec<u32>>();
        let order: Vec<u32> = (0..n).collect();
        let starts: Vec<u32> = (0..=n).collect();
        self.write_counters(queue, n, n)?;
        self.write(queue, Section::Tokens, &column(|row| row.token))?;
        self.write(queue, Section::Positions, &column(|row| row.position))?;
        self.write(queue, Section::RowSeq, &order)?;
        self.write(queue, Section::SeqStart, &starts)?;
        self.write(queue, Section::KvLen, &column(|row| row.position + 1))?;
        self.write(queue, Section::OutRows, &order)?;
        let sampling: Vec<SampleParams> = rows.iter().map(|row| row.sampling).collect();
        self.write(queue, Section::Sampling, &sampling)
    }

    /// Brings a slot's block table up to date; only what differs travels.
    pub(super) fn write_blocks(
        &mut self,
        queue: &mut Queue,
        slot: usize,
        blocks: &[u32],
    ) -> Result<(), EngineError> {
        let Some(known) = self.tables.get(slot) else { return Ok(()) };
        let same = known.iter().zip(blocks).take_while(|(device, now)| device == now).count();
        let new = &blocks[same..];
        if new.is_empty() {
            // Entries past the table are not read: no position reaches them.
            return Ok(());
        }
        let entry = slot as u64 * u64::from(self.layout.max_blocks) + same as u64;
        let start = self.layout.range(Section::BlockTables).start + 4 * entry;
        let bytes = bytemuck::cast_slice::<u32, u8>(new).to_vec();
        queue.upload_owned(&self.span(start, bytes.len() as u64)?, bytes)?;
        self.tables[slot] = blocks.to_vec();
        Ok(())
    }

    /// How the sequence in slot 0 draws.
    pub(super) fn write_sampling(
        &mut self,
        queue: &mut Queue,
        params: &SampleParams,
    ) -> Result<(), EngineError> {
        self.write(queue, Section::Sampling, &[*params])
    }

    /// Queues reading what the first `seqs` sequences drew in the step queued last.
    pub(super) fn sampled_later(&self, queue: &mut Queue, seqs: u32) -> Result<Ticket, EngineError> {
        let start = self.layout.range(Section::Sampled).start;
        Ok(queue.download_later(&self.span(start, 4 * u64::from(seqs))?)?)
    }

    fn write_counters(&self, queue: &mut Queue, n_rows: u32, n_seqs: u32) -> Result<(), EngineError> {
        let header = StepHeader { n_rows, n_seqs, ..StepHeader::default() };
        self.write(queue, Section::Header, &[header])
    }

    fn write<T: bytemuck::NoUninit>(
        &self,
        queue: &mut Queue,
        section: Section,
        values: &[T],
    ) -> Result<(), EngineError> {
        let bytes = bytemuck::cast_slice::<T, u8>(values).to_vec();
        if bytes.is_empty() {
            return Ok(());
        }
        queue.upload_owned(&self.span(self.layout.range(section).start, bytes.len() as u64)?, bytes)?;
        Ok(())
    }
}

/// The tokens of a finished [`StepBuffer::sampled_later`].
pub(super) fn tokens(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}
