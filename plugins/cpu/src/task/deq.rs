//! Widened weights: decoded once, when they are made resident, into the tiles that the prefill kernel reads.

use super::operands::Memory;
use super::{Crew, Task};
use crate::kernel::table::{FORMATS, Kernels};
use crate::kernel::tile::STEP;

/// Where a widened weight's tile has its values from `from` on, a multiple of [`STEP`].
///
/// # Safety
/// The weight is widened from rows of `k` values for `kernels` and has that tile; `from < k`.
pub(super) unsafe fn tile_at(
    kernels: &Kernels,
    weight: Memory,
    k: usize,
    tile: usize,
    from: usize,
) -> *const f32 {
    let nr = kernels.tile_rows;
    // SAFETY: a tile takes `nr` rows of k rounded up to STEP, so this stays within the weight.
    unsafe { weight.f32().add((tile * k.next_multiple_of(STEP) + from) * nr) }
}

/// A weight's blocks to tiles of f32.
pub(crate) struct WidenTask {
    pub(crate) kernels: &'static Kernels,
    /// Index in [`FORMATS`].
    pub(crate) format: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) source: Memory,
    pub(crate) out: Memory,
}

impl WidenTask {
    /// Decodes the rows of one tile.
    ///
    /// # Safety
    /// As [`Task::run`]; `tile` is one of the weight's.
    unsafe fn tile(&self, tile: usize) {
        let nr = self.kernels.tile_rows;
        // The operand check has established that K is whole blocks.
        let row_bytes = FORMATS[self.format].row_bytes(self.k as u64).unwrap_or(0) as usize;
        let expand = self.kernels.format(self.format).expand;
        let tile_len = nr * self.k.next_multiple_of(STEP);
        for lane in 0..nr {
            // A tile's missing rows repeat the last one; their sums are not stored.
            let row = (tile * nr + lane).min(self.n - 1);
            // SAFETY: `row` is a row of the source; the output holds all tiles, as was checked when the
            // launch was bound, and each row of a tile has its own lane of it.
            unsafe {
                let to = self.out.f32().add(tile * tile_len + lane * STEP);
                expand(self.source.bytes().add(row * row_bytes), 0, self.k, to, nr);
            }
        }
    }
}

impl Task for WidenTask {
    fn solo(&self, _phase: usize) -> bool {
        self.n * self.k < 16 * 1024
    }

    unsafe fn run(&self, _phase: usize, crew: &mut Crew<'_>) {
        let tiles = self.n.div_ceil(self.kernels.tile_rows);
        let chunk = crew.chunk(tiles, 4, 1);
        while let Some(claimed) = crew.claim(chunk, tiles) {
            for tile in claimed {
                // SAFETY: the tile is the weight's, claimed by this thread alone.
                unsafe { self.tile(tile) };
            }
        }
    }
}
