//! Where a sequence's positions are in a K or V plane: block tables, checked.

use super::OracleError;
use crate::kv;
use crate::op::Op;

/// The block tables of a launch and the shape of the planes they point into.
pub(super) struct Pages<'a> {
    pub(super) op: Op,
    pub(super) tables: &'a [u32],
    pub(super) max_blocks: u32,
    pub(super) n_head_kv: u32,
    pub(super) head_dim: u32,
}

impl Pages<'_> {
    /// Whole blocks a plane of `bytes` holds.
    pub(super) fn blocks(&self, bytes: usize) -> u64 {
        bytes as u64 / kv::block_bytes(self.n_head_kv, self.head_dim)
    }

    /// The byte range of one head at one position of one sequence, in a plane
    /// of `blocks` blocks.
    pub(super) fn head(
        &self,
        seq: u32,
        position: u32,
        head: u32,
        blocks: u64,
    ) -> Result<std::ops::Range<usize>, OracleError> {
        let out_of_range = |what, index: u32, bound: u64| OracleError::Index {
            op: self.op,
            what,
            index: u64::from(index),
            bound,
        };
        let page = position / kv::BLOCK_POSITIONS;
        if page >= self.max_blocks {
            let bound = u64::from(self.max_blocks) * u64::from(kv::BLOCK_POSITIONS);
            return Err(out_of_range("position", position, bound));
        }
        let entry = u64::from(seq) * u64::from(self.max_blocks) + u64::from(page);
        let sequences = self.tables.len() as u64 / u64::from(self.max_blocks.max(1));
        let block = usize::try_from(entry).ok().and_then(|entry| self.tables.get(entry));
        let &block = block.ok_or_else(|| out_of_range("sequence", seq, sequences))?;
        if u64::from(block) >= blocks {
            return Err(out_of_range("block", block, blocks));
        }
        let slot = position % kv::BLOCK_POSITIONS;
        let first = kv::element(block, head, slot, self.n_head_kv, self.head_dim) as usize * 2;
        Ok(first..first + self.head_dim as usize * 2)
    }
}
