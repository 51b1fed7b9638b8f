//! StepState: everything a step reads about its sequences, in one device buffer.
//!
//! The sections have fixed places given the three maxima of [`StepLayout`], so
//! that a decode step's prepared list is the same every time: [`crate::Op`]
//! `Advance` moves the state on the device and the host writes only deltas.
//! Rows of a step are grouped by sequence: sequence `s` owns the rows
//! `seq_start[s] .. seq_start[s + 1]`. All integers are little-endian u32.

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

/// Tokens the output ring keeps per sequence.
pub const RING_TOKENS: u32 = 64;
/// Alignment of every section, in bytes.
pub const SECTION_ALIGN: u64 = 256;

/// The counters at offset 0 of the state.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, Default, PartialEq, Eq, Debug)]
pub struct StepHeader {
    /// Steps `Advance` has made. Ring slot of the next token is `step % RING_TOKENS`.
    pub step: u32,
    /// Rows of the current step.
    pub n_rows: u32,
    /// Sequences of the current step.
    pub n_seqs: u32,
    /// Zero.
    pub reserved: [u32; 5],
}

/// How one sequence's next token is drawn. 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, PartialEq, Debug)]
pub struct SampleParams {
    /// Logits are divided by it; at or below 0 the largest logit wins.
    pub temperature: f32,
    /// Keep the fewest tokens whose probabilities reach this sum; 1 keeps all.
    pub top_p: f32,
    /// Drop tokens less likely than this times the likeliest; 0 keeps all.
    pub min_p: f32,
    /// Keep this many of the largest logits; 0 keeps [`SampleParams::CANDIDATES`].
    pub top_k: u32,
    /// Seed, low half.
    pub seed_lo: u32,
    /// Seed, high half.
    pub seed_hi: u32,
    /// Draws made with this seed; `Advance` raises it.
    pub counter: u32,
    /// Zero.
    pub reserved: u32,
}

impl SampleParams {
    /// Most candidates a device draw looks at.
    pub const CANDIDATES: u32 = 256;
    /// The largest logit, always.
    pub const GREEDY: SampleParams = SampleParams {
        temperature: 0.0,
        top_p: 1.0,
        min_p: 0.0,
        top_k: 0,
        seed_lo: 0,
        seed_hi: 0,
        counter: 0,
        reserved: 0,
    };
}

/// A section of the state.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Section {
    /// [`StepHeader`].
    Header,
    /// u32 `[max_rows]`: token id of each row.
    Tokens,
    /// u32 `[max_rows]`: position of each row in its sequence.
    Positions,
    /// u32 `[max_rows]`: sequence slot of each row.
    RowSeq,
    /// u32 `[max_seqs + 1]`: first row of each sequence; the last entry ends the step.
    SeqStart,
    /// u32 `[max_seqs]`: positions in the cache once this step's rows are appended.
    KvLen,
    /// u32 `[max_rows]`: the rows whose logits are wanted; one per sequence when generating.
    OutRows,
    /// u32 `[max_seqs * max_blocks]`: physical blocks.
    BlockTables,
    /// [`SampleParams`] `[max_seqs]`.
    Sampling,
    /// u32 `[max_seqs]`: the token each sequence drew this step.
    Sampled,
    /// u32 `[max_seqs * RING_TOKENS]`: drawn tokens, by step.
    Ring,
}

impl Section {
    /// Every section in memory order.
    pub const ALL: [Section; 11] = [
        Section::Header,
        Section::Tokens,
        Section::Positions,
        Section::RowSeq,
        Section::SeqStart,
        Section::KvLen,
        Section::OutRows,
        Section::BlockTables,
        Section::Sampling,
        Section::Sampled,
        Section::Ring,
    ];
}

/// The maxima that fix where each section lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct StepLayout {
    /// Most rows of a step.
    pub max_rows: u32,
    /// Most sequences of a step.
    pub max_seqs: u32,
    /// Most blocks of one sequence.
    pub max_blocks: u32,
}

impl StepLayout {
    /// Bytes a section holds, without padding. Maxima that no memory could hold saturate: they come from
    /// a launch, and its buffers are then too short for it.
    pub const fn section_bytes(&self, section: Section) -> u64 {
        let rows = self.max_rows as u64 * 4;
        let seqs = self.max_seqs as u64 * 4;
        match section {
            Section::Header => size_of::<StepHeader>() as u64,
            Section::Tokens | Section::Positions | Section::RowSeq | Section::OutRows => rows,
            Section::SeqStart => seqs + 4,
            Section::KvLen | Section::Sampled => seqs,
            Section::BlockTables => seqs.saturating_mul(self.max_blocks as u64),
            Section::Sampling => self.max_seqs as u64 * size_of::<SampleParams>() as u64,
            Section::Ring => seqs * RING_TOKENS as u64,
        }
    }

    /// The bytes of a section within the state.
    pub fn range(&self, section: Section) -> Range<u64> {
        let mut start = 0;
        for earlier in Section::ALL {
            let len = self.section_bytes(earlier);
            if earlier == section {
                return start..start.saturating_add(len);
            }
            start = start.saturating_add(padded(len));
        }
        start..start
    }

    /// Bytes of the whole state.
    pub fn total_bytes(&self) -> u64 {
        Section::ALL.iter().fold(0, |sum, &section| sum.saturating_add(padded(self.section_bytes(section))))
    }
}

fn padded(len: u64) -> u64 {
    len.checked_next_multiple_of(SECTION_ALIGN).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_maxima_saturate() {
        let layout = StepLayout { max_rows: u32::MAX, max_seqs: u32::MAX, max_blocks: u32::MAX };
        assert_eq!(layout.total_bytes(), u64::MAX);
        assert_eq!(layout.range(Section::Ring).end, u64::MAX);
    }

    #[test]
    fn sections_are_aligned_and_do_not_overlap() {
        let layout = StepLayout { max_rows: 37, max_seqs: 3, max_blocks: 65 };
        let mut end = 0;
        for section in Section::ALL {
            let range = layout.range(section);
            assert_eq!(range.start % SECTION_ALIGN, 0);
            assert!(range.start >= end, "{section:?} overlaps");
            assert_eq!(range.end - range.start, layout.section_bytes(section));
            end = range.end;
        }
        assert!(end <= layout.total_bytes());
    }
}
