//! `attention` of many query rows: tiles of queries walk the positions they see,
//! keys transposed and values widened to f32 once per tile.

use super::attention::{Attention, Rows};
use super::rope::HEAD_DIM_MAX;
use super::{ARENA, Crew, Task};
use crate::kernel::attention::DenseArgs;

/// Query rows (positions times the heads of a group) of a tile.
pub(crate) const TILE: usize = 96;
/// Positions a tile meets at a time.
const SPAN: usize = 64;

// Queries and sums of a tile, keys and values of a span, scores.
const _: () = assert!(2 * TILE * HEAD_DIM_MAX + 2 * SPAN * HEAD_DIM_MAX + TILE * SPAN + 2 * TILE <= ARENA);

/// Attention of many rows.
pub(crate) struct ManyRows(pub(crate) Attention);

/// The working memory of a tile.
struct Work {
    query: *mut f32,
    sums: *mut f32,
    keys: *mut f32,
    values: *mut f32,
    scores: *mut f32,
    maxima: *mut f32,
    totals: *mut f32,
}

impl Work {
    /// # Safety
    /// `arena` holds [`ARENA`] values.
    unsafe fn of(arena: *mut f32) -> Work {
        // SAFETY: the parts lie one after the other and fit, as asserted above.
        unsafe {
            let query = arena;
            let sums = query.add(TILE * HEAD_DIM_MAX);
            let keys = sums.add(TILE * HEAD_DIM_MAX);
            let values = keys.add(SPAN * HEAD_DIM_MAX);
            let scores = values.add(SPAN * HEAD_DIM_MAX);
            let maxima = scores.add(TILE * SPAN);
            Work { query, sums, keys, values, scores, maxima, totals: maxima.add(TILE) }
        }
    }
}

impl ManyRows {
    /// Query positions of a tile; 0 when a group has more heads than a tile has rows.
    fn tile_queries(&self) -> usize {
        TILE / self.0.group()
    }

    /// Queries `first..first + count` of a sequence for one K/V head.
    ///
    /// # Safety
    /// As [`Task::run`]; the queries are the sequence's, the head a K/V head.
    unsafe fn tile(
        &self,
        rows: Rows,
        head_kv: usize,
        first: usize,
        count: usize,
        arena: *mut f32,
    ) -> Result<(), String> {
        let attention = &self.0;
        let (dim, group, width) = (attention.dim(), attention.group(), attention.width());
        let kernels = attention.kernels;
        let tile_rows = count * group;
        // SAFETY: `arena` is this thread's own.
        let work = unsafe { Work::of(arena) };
        for index in 0..count {
            // SAFETY: the query row and the group's heads lie in q; the tile has
            // at most TILE rows of at most HEAD_DIM_MAX values.
            unsafe {
                let from =
                    attention.q.f32().add((rows.first + first + index) * width + head_kv * group * dim);
                let to = work.query.add(index * group * dim);
                for i in 0..group * dim {
                    *to.add(i) = *from.add(i) * attention.heads.scale;
                }
            }
        }
        for row in 0..tile_rows {
            // A sink is a score whose value is nothing: it joins maximum and total.
            // SAFETY: maxima and totals hold TILE values; sinks one per head.
            unsafe {
                let sink = attention.sinks.map(|sinks| *sinks.f32().add(head_kv * group + row % group));
                *work.maxima.add(row) = sink.unwrap_or(f32::NEG_INFINITY);
                *work.totals.add(row) = if sink.is_some() { 1.0 } else { 0.0 };
                std::slice::from_raw_parts_mut(work.sums.add(row * dim), dim).fill(0.0);
            }
        }
        let (start, _) = attention.seen(rows, first);
        let (_, end) = attention.seen(rows, first + count - 1);
        let mut from = start / SPAN * SPAN;
        while from < end {
            let to = (from + SPAN).min(end);
            // SAFETY: positions from..to are below kv_len; the work memory holds
            // a span of keys and values and a tile of scores.
            unsafe {
                self.gather(rows.seq, head_kv, from, to, &work)?;
                (kernels.dense)(&DenseArgs {
                    a: work.query,
                    a_stride: dim,
                    b: work.keys,
                    b_stride: SPAN,
                    c: work.scores,
                    c_stride: SPAN,
                    rows: tile_rows,
                    depth: dim,
                    width: SPAN,
                    fresh: true,
                });
                for row in 0..tile_rows {
                    self.weigh(rows, first + row / group, row, from, to, &work);
                }
                (kernels.dense)(&DenseArgs {
                    a: work.scores,
                    a_stride: SPAN,
                    b: work.values,
                    b_stride: dim,
                    c: work.sums,
                    c_stride: dim,
                    rows: tile_rows,
                    depth: to - from,
                    width: dim,
                    fresh: false,
                });
            }
            from += SPAN;
        }
        for row in 0..tile_rows {
            let (index, head) = (first + row / group, head_kv * group + row % group);
            // SAFETY: the output row and head lie in the output.
            unsafe {
                let total = *work.totals.add(row);
                let share = if total == 0.0 { 0.0 } else { 1.0 / total };
                let out = attention.out.f32().add((rows.first + index) * width + head * dim);
                for i in 0..dim {
                    *out.add(i) = *work.sums.add(row * dim + i) * share;
                }
            }
        }
        Ok(())
    }

    /// Widens positions `from..to`: values row by row, keys as `[dim][SPAN]`.
    ///
    /// # Safety
    /// As [`ManyRows::tile`].
    unsafe fn gather(
        &self,
        seq: usize,
        head_kv: usize,
        from: usize,
        to: usize,
        work: &Work,
    ) -> Result<(), String> {
        let attention = &self.0;
        let dim = attention.dim();
        for position in from..to {
            let i = position - from;
            // SAFETY: the place is within both planes; the scores are free to
            // stage one key, being at least HEAD_DIM_MAX long.
            unsafe {
                let at = attention.place(seq, position, head_kv)?;
                (attention.kernels.widen)(attention.v_plane.u16().add(at), work.values.add(i * dim), dim);
                (attention.kernels.widen)(attention.k_plane.u16().add(at), work.scores, dim);
                for d in 0..dim {
                    *work.keys.add(d * SPAN + i) = *work.scores.add(d);
                }
            }
        }
        for i in to - from..SPAN {
            for d in 0..dim {
                // SAFETY: within the span's keys.
                unsafe { *work.keys.add(d * SPAN + i) = 0.0 };
            }
        }
        Ok(())
    }

    /// Turns one row of scores into weights and rescales what was summed before.
    ///
    /// # Safety
    /// As [`ManyRows::tile`].
    unsafe fn weigh(&self, rows: Rows, index: usize, row: usize, from: usize, to: usize, work: &Work) {
        let attention = &self.0;
        let dim = attention.dim();
        let (start, end) = attention.seen(rows, index);
        let (start, end) = (start.clamp(from, to) - from, end.clamp(from, to) - from);
        // SAFETY: row `row` of the scores, sums, maxima and totals.
        unsafe {
            let scores = work.scores.add(row * SPAN);
            let visible = end.saturating_sub(start);
            if visible > 0 {
                let before = *work.maxima.add(row);
                let (maximum, total) =
                    (attention.kernels.weights)(scores.add(start), visible, attention.heads.softcap, before);
                let keep = if maximum == before { 1.0 } else { (before - maximum).exp() };
                *work.maxima.add(row) = maximum;
                *work.totals.add(row) = *work.totals.add(row) * keep + total;
                if keep != 1.0 {
                    let sums = std::slice::from_raw_parts_mut(work.sums.add(row * dim), dim);
                    sums.iter_mut().for_each(|sum| *sum *= keep);
                }
            }
            for i in (0..start).chain(start + visible..to - from) {
                *scores.add(i) = 0.0;
            }
        }
    }
}

impl Task for ManyRows {
    fn solo(&self, _phase: usize) -> bool {
        false
    }

    unsafe fn run(&self, _phase: usize, crew: &mut Crew<'_>) {
        let attention = &self.0;
        let heads_kv = attention.heads.n_head_kv as usize;
        let queries = self.tile_queries();
        // Every thread walks the same tiles in the same order and takes those it claims.
        let mut claimed = crew.claim(1, usize::MAX).map_or(usize::MAX, |range| range.start);
        let mut item = 0;
        for seq in 0..attention.seqs {
            // SAFETY: `seq` is below the number of sequences.
            let rows = match unsafe { attention.rows(seq) } {
                Ok(rows) => rows,
                Err(text) => return crew.refusal.say(|| text),
            };
            let tiles = rows.queries.div_ceil(queries);
            // The last tiles see most, so they go first.
            for index in (0..tiles).rev() {
                for head_kv in 0..heads_kv {
                    if item == claimed {
                        let first = index * queries;
                        let count = queries.min(rows.queries - first);
                        // SAFETY: the queries are the sequence's, claimed by this
                        // thread alone.
                        let done = unsafe { self.tile(rows, head_kv, first, count, crew.arena) };
                        if let Err(text) = done {
                            return crew.refusal.say(|| text);
                        }
                        claimed = crew.claim(1, usize::MAX).map_or(usize::MAX, |range| range.start);
                    }
                    item += 1;
                }
            }
        }
    }
}
