//! Block ids and who holds them. Knows no device.
//!
//! Allocation and release are O(1) per block. A block is free, or held by as many tables as its
//! count says; it returns to the free list when the last lets go.

use cajeta_catalog::kv::BLOCK_POSITIONS;

/// The blocks of a pool, by reference count.
#[derive(Debug)]
pub struct BlockPool {
    free: Vec<u32>,
    held: Vec<u32>,
}

impl BlockPool {
    /// A pool of `count` free blocks.
    pub fn new(count: u32) -> BlockPool {
        // Taken from the end: low ids first.
        BlockPool { free: (0..count).rev().collect(), held: vec![0; count as usize] }
    }

    /// Blocks nobody holds.
    pub fn n_free(&self) -> usize {
        self.free.len()
    }

    fn take(&mut self) -> Option<u32> {
        let block = self.free.pop()?;
        self.held[block as usize] = 1;
        Some(block)
    }

    fn release(&mut self, block: u32) {
        let count = &mut self.held[block as usize];
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.free.push(block);
        }
    }
}

/// The blocks of one sequence, in position order.
#[derive(Debug, Default)]
pub struct BlockTable {
    blocks: Vec<u32>,
}

impl BlockTable {
    /// Makes room for `positions` positions. Blocks taken stay taken; on `false` there were too few
    /// and nothing changed.
    pub fn reserve(&mut self, pool: &mut BlockPool, positions: u32) -> bool {
        let wanted = positions.div_ceil(BLOCK_POSITIONS) as usize;
        let missing = wanted.saturating_sub(self.blocks.len());
        if missing > pool.n_free() {
            return false;
        }
        self.blocks.extend(std::iter::from_fn(|| pool.take()).take(missing));
        true
    }

    /// Lets go of the blocks past `positions` positions.
    pub fn truncate(&mut self, pool: &mut BlockPool, positions: u32) {
        let keep = positions.div_ceil(BLOCK_POSITIONS) as usize;
        for block in self.blocks.drain(keep.min(self.blocks.len())..) {
            pool.release(block);
        }
    }

    /// Physical blocks in position order.
    pub fn blocks(&self) -> &[u32] {
        &self.blocks
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn too_few_blocks_changes_nothing() {
        let mut pool = BlockPool::new(2);
        let mut table = BlockTable::default();
        assert!(!table.reserve(&mut pool, 33));
        assert_eq!((table.blocks().len(), pool.n_free()), (0, 2));
        assert!(table.reserve(&mut pool, 32));
        assert_eq!(pool.n_free(), 0);
    }

    proptest! {
        #[test]
        fn no_block_is_held_twice_or_lost(steps in prop::collection::vec((0usize..3, 0u32..200), 1..60)) {
            let mut pool = BlockPool::new(16);
            let mut tables: [BlockTable; 3] = Default::default();
            for (which, positions) in steps {
                if positions % 2 == 0 {
                    tables[which].reserve(&mut pool, positions);
                } else {
                    tables[which].truncate(&mut pool, positions);
                }
                let mut all: Vec<u32> = tables.iter().flat_map(|table| table.blocks().to_vec()).collect();
                let n_held = all.len();
                all.sort_unstable();
                all.dedup();
                prop_assert_eq!(all.len(), n_held);
                prop_assert_eq!(n_held + pool.n_free(), 16);
            }
        }
    }
}
