//! The host's pen on the step state: writes what the device cannot know by itself.

use cajeta_abi::MemoryKind;
use cajeta_catalog::state::{SampleParams, Section, StepHeader, StepLayout};
use cajeta_plugin_host::{Buffer, BufferSpan, Device, Queue};

use super::error::EngineError;

/// The step state of an engine that runs one sequence at a time.
pub(super) struct StepBuffer {
    layout: StepLayout,
    buffer: Buffer,
    /// The block table as the device has it.
    blocks: Vec<u32>,
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
        Ok(StepBuffer { layout, buffer, blocks: Vec::new() })
    }

    /// Where the sections lie.
    pub(super) fn layout(&self) -> StepLayout {
        self.layout
    }

    /// Part of the state.
    pub(super) fn span(&self, offset: u64, len: u64) -> Result<BufferSpan, EngineError> {
        Ok(self.buffer.span(offset, len)?)
    }

    /// Describes a step of one sequence: `n_rows` rows at `position ..`, whose tokens are given, or
    /// are where the device left them. `out_rows` are the rows whose logits are wanted.
    pub(super) fn write_rows(
        &mut self,
        queue: &mut Queue,
        tokens: Option<&[u32]>,
        n_rows: u32,
        position: u32,
        out_rows: &[u32],
    ) -> Result<(), EngineError> {
        let positions: Vec<u32> = (position..position + n_rows).collect();
        let row_seq = vec![0u32; n_rows as usize];
        let seq_start = [0, n_rows];
        let kv_len = [position + n_rows];
        let mut pieces: Vec<(Section, &[u32])> = vec![
            (Section::Positions, &positions),
            (Section::RowSeq, &row_seq),
            (Section::SeqStart, &seq_start),
            (Section::KvLen, &kv_len),
            (Section::OutRows, out_rows),
        ];
        if let Some(tokens) = tokens {
            pieces.push((Section::Tokens, tokens));
        }
        let header = [n_rows, 1];
        let counters =
            self.layout.range(Section::Header).start + std::mem::offset_of!(StepHeader, n_rows) as u64;
        let mut spans = vec![(self.span(counters, 8)?, bytemuck::cast_slice::<u32, u8>(&header))];
        for (section, values) in pieces {
            let bytes = bytemuck::cast_slice::<u32, u8>(values);
            spans.push((self.span(self.layout.range(section).start, bytes.len() as u64)?, bytes));
        }
        let pieces: Vec<(&BufferSpan, &[u8])> = spans.iter().map(|(span, bytes)| (span, *bytes)).collect();
        Ok(queue.upload_all(&pieces)?)
    }

    /// Brings the sequence's block table up to date; only what differs travels.
    pub(super) fn write_blocks(&mut self, queue: &mut Queue, blocks: &[u32]) -> Result<(), EngineError> {
        let same = self.blocks.iter().zip(blocks).take_while(|(device, now)| device == now).count();
        let new = &blocks[same..];
        if new.is_empty() {
            // Entries past the table are not read: no position reaches them.
            return Ok(());
        }
        let start = self.layout.range(Section::BlockTables).start + 4 * same as u64;
        let bytes = bytemuck::cast_slice::<u32, u8>(new);
        queue.upload(&self.span(start, bytes.len() as u64)?, bytes)?;
        self.blocks.truncate(same);
        self.blocks.extend_from_slice(new);
        Ok(())
    }

    /// How the next tokens are drawn.
    pub(super) fn write_sampling(
        &mut self,
        queue: &mut Queue,
        params: &SampleParams,
    ) -> Result<(), EngineError> {
        let start = self.layout.range(Section::Sampling).start;
        let bytes = bytemuck::bytes_of(params);
        Ok(queue.upload(&self.span(start, bytes.len() as u64)?, bytes)?)
    }

    /// The token the sequence drew last.
    pub(super) fn read_sampled(&self, queue: &mut Queue) -> Result<u32, EngineError> {
        let mut bytes = [0; 4];
        queue.download(&self.span(self.layout.range(Section::Sampled).start, 4)?, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
}
