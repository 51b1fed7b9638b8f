//! The K/V blocks that each sequence slot owns.

use cajeta_catalog::kv::BLOCK_POSITIONS;

use super::error::EngineError;
use crate::kv::{BlockPool, BlockTable};

/// Blocks a decoding sequence owns past the one it writes, so that its table changes before a step
/// that needs the change is queued, and steps under way never wait for the host.
const BLOCKS_AHEAD: u32 = 2;

/// The block tables of all slots, over one pool.
pub(super) struct Sequences {
    pool: BlockPool,
    tables: Vec<BlockTable>,
    ctx: u32,
    n_blocks: u32,
}

impl Sequences {
    /// `slots` empty sequences of at most `ctx` positions over a pool of `n_blocks` blocks.
    pub(super) fn new(slots: u32, ctx: u32, n_blocks: u32) -> Sequences {
        let tables = (0..slots).map(|_| BlockTable::default()).collect();
        Sequences { pool: BlockPool::new(n_blocks), tables, ctx, n_blocks }
    }

    /// Blocks of the pool, free or not.
    pub(super) fn n_blocks(&self) -> u32 {
        self.n_blocks
    }

    /// Makes room for `positions` positions in a slot.
    ///
    /// # Errors
    /// When the context or the pool has no room for them.
    pub(super) fn reserve(&mut self, slot: usize, positions: u32) -> Result<(), EngineError> {
        let full =
            || EngineError::PromptTooLong { tokens: positions as usize, ctx: self.ctx, trained: self.ctx };
        if positions > self.ctx {
            return Err(full());
        }
        let table = self.tables.get_mut(slot).ok_or_else(full)?;
        if table.reserve(&mut self.pool, positions) { Ok(()) } else { Err(full()) }
    }

    /// As [`Sequences::reserve`], and two blocks more where the context and the pool have them.
    pub(super) fn reserve_ahead(&mut self, slot: usize, positions: u32) -> Result<(), EngineError> {
        let ahead = positions.saturating_add(BLOCKS_AHEAD * BLOCK_POSITIONS).min(self.ctx);
        if ahead > positions && self.reserve(slot, ahead).is_ok() {
            return Ok(());
        }
        self.reserve(slot, positions)
    }

    /// Lets go of a slot's blocks past `positions` positions.
    pub(super) fn truncate(&mut self, slot: usize, positions: u32) {
        if let Some(table) = self.tables.get_mut(slot) {
            table.truncate(&mut self.pool, positions);
        }
    }

    /// A slot's blocks in position order.
    pub(super) fn blocks(&self, slot: usize) -> &[u32] {
        self.tables.get(slot).map_or(&[], BlockTable::blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_blocks_ahead_where_there_is_room() {
        let mut sequences = Sequences::new(2, 100, 9);
        sequences.reserve_ahead(0, 1).expect("room");
        assert_eq!(sequences.blocks(0).len(), 3);
        sequences.reserve_ahead(0, 90).expect("room");
        assert_eq!(sequences.blocks(0).len(), 7, "the context ends the reserve");
        sequences.reserve_ahead(1, 17).expect("room for what is needed, none for more");
        assert_eq!(sequences.blocks(1).len(), 2);
        assert!(sequences.reserve_ahead(1, 33).is_err(), "the pool is empty");
        assert!(sequences.reserve(0, 101).is_err() && sequences.reserve(2, 1).is_err());
        sequences.truncate(0, 16);
        assert!(sequences.reserve(1, 33).is_ok());
    }
}
