//! `matmul` with many activation rows: packed once, then panels of decoded
//! weights, or of widened ones as they are, times register tiles.

use std::ops::Range;

use super::deq::tile_at;
use super::matmul::{DOT_ROWS, Ending, Part, Product, bias_at};
use super::operands::Memory;
use super::{ARENA, Crew, Task};
use crate::kernel::tile::{AHEAD_LINES, STEP};
use crate::tier::Tier;

/// Values of k decoded at a time: with [`PANEL_ROWS`] rows, a panel fits the
/// second-level cache beside the activations it meets.
const DEPTH: usize = 1024;
/// Weight rows decoded at a time, both weights of a gated pair together.
const PANEL_ROWS: usize = 48;
/// Activation rows that meet one decoded panel before it is decoded again.
const BAND: usize = 512;

// A thread's arena holds a panel and the sums of a band.
const _: () = assert!(PANEL_ROWS * DEPTH + PANEL_ROWS * BAND <= ARENA);

/// Widest tile of any tier, in activation rows.
const WIDEST: usize = 32;

/// The activation rows a tile takes when there are `m`: 0 the narrow one, 1 the wide.
fn width_index(m: usize, widths: [usize; 2]) -> usize {
    usize::from(m > widths[0])
}

/// Scratch a product of `m` rows and `k` values takes on any tier.
pub(crate) fn scratch_bytes(tier: Tier, m: u64, k: u64) -> Option<u64> {
    if m <= DOT_ROWS as u64 {
        return Some(0);
    }
    let widths = crate::kernel::table::Kernels::of(tier).tile_widths;
    let width = widths[width_index(usize::try_from(m).ok()?, widths)] as u64;
    let rows = m.checked_next_multiple_of(width)?;
    rows.checked_mul(k.checked_next_multiple_of(STEP as u64)?)?.checked_mul(4)
}

/// The product over packed activations.
pub(crate) struct GemmTask {
    pub(crate) product: Product,
    pub(crate) packed: Memory,
}

/// One weight's share of a panel.
#[derive(Clone, Copy)]
struct Half {
    weight: Memory,
    /// Where its tiles start in the arena's panel and sums.
    tiles: usize,
}

impl GemmTask {
    fn width(&self) -> usize {
        let widths = self.product.kernels.tile_widths;
        widths[width_index(self.product.m, widths)]
    }

    fn padded_k(&self) -> usize {
        self.product.k.next_multiple_of(STEP)
    }

    /// Weight rows of one work item.
    fn item_rows(&self, threads: usize) -> usize {
        let nr = self.product.kernels.tile_rows;
        let gated = self.product.parts.iter().any(|part| matches!(part.ending, Ending::Glu { .. }));
        let most = PANEL_ROWS / nr / (1 + usize::from(gated)) * nr;
        // Enough items that the last one does not leave the others waiting.
        let balanced = self.product.rows().div_ceil(threads * 3).next_multiple_of(nr);
        balanced.clamp(nr, most.max(nr))
    }

    /// Packs tile row `index` of the activations.
    ///
    /// # Safety
    /// As [`Task::run`]; `index` is a tile row.
    unsafe fn pack(&self, index: usize) {
        let Product { kernels, m, k, x, .. } = self.product;
        let width = self.width();
        let first = index * width;
        // SAFETY: rows `first..` lie in x, and each tile row has its own
        // `width * padded_k` values of the scratch.
        unsafe {
            let packed = self.packed.f32().add(first * self.padded_k());
            (kernels.pack)(x.f32().add(first * k), k, width.min(m - first), k, packed, width);
        }
    }

    /// Weight rows `columns` of a part, the columns of its output, by all activation rows.
    ///
    /// # Safety
    /// As [`Task::run`]; `columns` are some of the part's, and at most an item's.
    unsafe fn item(&self, part: &Part, columns: Range<usize>, arena: *mut f32) {
        let Product { kernels, m, k, .. } = self.product;
        let (nr, width) = (kernels.tile_rows, self.width());
        let tiles = columns.len().div_ceil(nr);
        let first = Half { weight: part.weight, tiles: 0 };
        let second = match part.ending {
            Ending::Glu { up, .. } => Some(Half { weight: up, tiles }),
            _ => None,
        };
        // SAFETY: the panel of at most PANEL_ROWS * DEPTH values and the sums of
        // PANEL_ROWS * BAND share the arena, as asserted above.
        let sums = unsafe { arena.add(PANEL_ROWS * DEPTH) };
        let panel = arena;
        let tile = kernels.tiles[width_index(m, kernels.tile_widths)];
        let padded = self.padded_k();
        let all_tiles = tiles * (1 + usize::from(second.is_some()));
        let mut band = 0;
        while band < m {
            let band_end = (band + BAND).min(m);
            let mut from = 0;
            while from < k {
                let len = DEPTH.min(k - from);
                let steps = len.div_ceil(STEP);
                let blocks = [Some(first), second].into_iter().flatten().filter(|_| !part.wide);
                for half in blocks {
                    // SAFETY: the rows and values from..from + len are in the weight.
                    unsafe { self.decode(part, half, columns.clone(), from..from + len, panel) };
                }
                let mut row = band;
                while row < band_end {
                    let next = if row + width < band_end { row + width } else { row };
                    for t in 0..all_tiles {
                        let sums_at = ((row - band) / width * all_tiles + t) * nr * width;
                        // SAFETY: tile `t`, of the panel or of the widened weight whose rows
                        // begin with a tile's, holds `steps` runs from here; tile row
                        // `row / width` of the packed activations starts at
                        // `row * padded` and holds `padded` columns, of which
                        // `from..from + steps * STEP` are read; the sums of a band
                        // take at most PANEL_ROWS * BAND values.
                        unsafe {
                            let packed = |row: usize| self.packed.f32().add(row * padded + from * width);
                            let weights = if part.wide {
                                let half = second.filter(|half| t >= half.tiles).unwrap_or(first);
                                let index = columns.start / nr + t - half.tiles;
                                tile_at(kernels, half.weight, k, index, from)
                            } else {
                                panel.add(t * nr * steps * STEP)
                            };
                            tile(
                                weights,
                                packed(row),
                                steps,
                                sums.add(sums_at),
                                from == 0,
                                packed(next).wrapping_add(t * steps * AHEAD_LINES * 16),
                            );
                        }
                    }
                    row += width;
                }
                from += len;
            }
            let mut row = band;
            while row < band_end {
                let sums_at = (row - band) / width * all_tiles * nr * width;
                // SAFETY: the sums of this tile row are complete; rows and columns
                // are within the output.
                unsafe {
                    let rows = row..(row + width).min(band_end);
                    self.finish(part, sums.add(sums_at), tiles, columns.clone(), rows);
                }
                row += width;
            }
            band = band_end;
        }
    }

    /// Decodes values of some rows into a half's tiles.
    ///
    /// # Safety
    /// As [`GemmTask::item`].
    unsafe fn decode(
        &self,
        part: &Part,
        half: Half,
        rows: Range<usize>,
        values: Range<usize>,
        panel: *mut f32,
    ) {
        let nr = self.product.kernels.tile_rows;
        let row_bytes = self.product.row_bytes(part);
        let (from, len) = (values.start, values.len());
        let tile_len = nr * len.next_multiple_of(STEP);
        let expand = self.product.over(part).expand;
        for index in 0..rows.len().next_multiple_of(nr) {
            let (tile, lane) = (index / nr, index % nr);
            // A tile's missing rows repeat the last one; their sums are not stored.
            let source = (rows.start + index).min(rows.end - 1);
            // SAFETY: `source` is a row of the weight; each row of a tile has its
            // own lane of the panel.
            unsafe {
                let to = panel.add((half.tiles + tile) * tile_len + lane * STEP);
                expand(half.weight.bytes().add(source * row_bytes), from, len, to, nr);
            }
        }
    }

    /// Stores the outputs of one tile row: weight rows `columns` by activation rows `rows`.
    ///
    /// # Safety
    /// As [`GemmTask::item`]; `sums` holds the tile row's sums, `[tile][nr][width]`.
    unsafe fn finish(
        &self,
        part: &Part,
        sums: *mut f32,
        tiles: usize,
        columns: Range<usize>,
        rows: Range<usize>,
    ) {
        let kernels = self.product.kernels;
        let Part { n, out, ending, .. } = *part;
        let (nr, width) = (kernels.tile_rows, self.width());
        // SAFETY: every index below is within the sums of this tile row, the
        // output, the residual of its shape, or the bias of n values.
        unsafe {
            match ending {
                Ending::Glu { gelu, .. } => {
                    let len = tiles * nr * width;
                    (kernels.glu)(sums, sums.add(len), sums, len, gelu);
                }
                Ending::Plain { bias, softcap } => {
                    if let Some(bias) = bias {
                        for column in columns.clone() {
                            let value = bias_at(Some(bias), column);
                            for lane in 0..width {
                                *sums.add((column - columns.start) * width + lane) += value;
                            }
                        }
                    }
                    if softcap != 0.0 {
                        (kernels.softcap)(sums, tiles * nr * width, softcap);
                    }
                }
                Ending::Add { .. } => {}
            }
            for row in rows.clone() {
                let to = out.f32().add(row * n);
                let from = sums.add(row - rows.start);
                match ending {
                    Ending::Add { bias, residual } => {
                        let residual = residual.f32().add(row * n);
                        for column in columns.clone() {
                            let value = *from.add((column - columns.start) * width) + bias_at(bias, column);
                            *to.add(column) = *residual.add(column) + value;
                        }
                    }
                    _ => {
                        for column in columns.clone() {
                            *to.add(column) = *from.add((column - columns.start) * width);
                        }
                    }
                }
            }
        }
    }
}

impl Task for GemmTask {
    fn phases(&self) -> usize {
        2
    }

    fn solo(&self, phase: usize) -> bool {
        phase == 0 && self.product.m * self.product.k < 8 * 1024
    }

    unsafe fn run(&self, phase: usize, crew: &mut Crew<'_>) {
        debug_assert!(self.width() <= WIDEST);
        if phase == 0 {
            let rows = self.product.m.div_ceil(self.width());
            while let Some(claimed) = crew.claim(1, rows) {
                for index in claimed {
                    // SAFETY: `index` is a tile row, claimed by this thread alone.
                    unsafe { self.pack(index) };
                }
            }
            return;
        }
        let chunk = self.item_rows(crew.threads);
        while let Some(claim) = crew.claim(chunk, self.product.claimable(chunk)) {
            let Some((part, rows)) = self.product.claimed(claim, chunk) else { continue };
            // SAFETY: the rows are the part's, claimed by this thread alone; the
            // activations were packed in phase 0.
            unsafe { self.item(part, rows, crew.arena) };
        }
    }
}
