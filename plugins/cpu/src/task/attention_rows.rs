//! `attention` of many query rows, one row after the other: each (row, K/V head) is
//! one item, which walks the positions it sees and carries its softmax along.
//!
//! It reads the cache once a row where tiles read it once for all rows of a tile,
//! but transposes and widens nothing: it serves steps in which few rows share a
//! sequence.

use super::attention::{Attention, RUN, TOGETHER};
use super::attention_tile::TILE;
use super::rope::HEAD_DIM_MAX;
use super::{ARENA, Crew, Task};

// Queries and sums of a group, scores of the heads taken together.
const _: () = assert!(2 * TILE * HEAD_DIM_MAX + TOGETHER * RUN <= ARENA);

/// Attention of many rows, each by itself.
pub(crate) struct RowByRow(pub(crate) Attention);

impl RowByRow {
    /// One K/V head's group of one row.
    ///
    /// # Safety
    /// As [`Task::run`]; the numbers are below their limits, and a group has at
    /// most [`TILE`] heads.
    unsafe fn item(&self, row: usize, head_kv: usize, arena: *mut f32) -> Result<(), String> {
        let attention = &self.0;
        let (dim, group, heads) = (attention.dim(), attention.group(), attention.heads);
        // SAFETY: passed on from the caller.
        let Some(rows) = (unsafe { attention.sequence(row)? }) else { return Ok(()) };
        let (start, end) = attention.seen(rows, row - rows.first);
        let at = row * attention.width() + head_kv * group * dim;
        // SAFETY: the three parts lie one after the other and fit, as asserted above.
        let (query, sums, scores) =
            unsafe { (arena, arena.add(group * dim), arena.add(2 * TILE * HEAD_DIM_MAX)) };
        let (mut maxima, mut totals) = ([f32::NEG_INFINITY; TILE], [0.0f32; TILE]);
        // SAFETY: the row's heads of this group lie in q; the sinks hold one per head.
        unsafe {
            let from = attention.q.f32().add(at);
            for i in 0..group * dim {
                *query.add(i) = *from.add(i) * heads.scale;
            }
            std::slice::from_raw_parts_mut(sums, group * dim).fill(0.0);
            // A sink is a score whose value is nothing: it joins maximum and total.
            if let Some(sinks) = attention.sinks {
                for g in 0..group {
                    (maxima[g], totals[g]) = (*sinks.f32().add(head_kv * group + g), 1.0);
                }
            }
        }
        let mut from = start;
        while from < end {
            let to = (from + RUN).min(end);
            let (mut keys, mut values) = ([std::ptr::null(); RUN], [std::ptr::null(); RUN]);
            let (keys, values) = (&mut keys[..to - from], &mut values[..to - from]);
            // SAFETY: positions from..to are below kv_len.
            unsafe { attention.gather(rows.seq, head_kv, from, keys, values)? };
            let mut g = 0;
            while g < group {
                let count = (group - g).min(TOGETHER);
                let mut keep = [1.0f32; TOGETHER];
                // SAFETY: heads g..g + count are the group's; `scores` holds as many
                // rows of RUN values.
                unsafe {
                    (attention.kernels.scores[count - 1])(query.add(g * dim), dim, keys, scores, RUN);
                    for (c, keep) in keep.iter_mut().enumerate().take(count) {
                        let before = maxima[g + c];
                        let row = scores.add(c * RUN);
                        let (maximum, total) =
                            (attention.kernels.weights)(row, keys.len(), heads.softcap, before);
                        if maximum != before {
                            *keep = (before - maximum).exp();
                        }
                        maxima[g + c] = maximum;
                        totals[g + c] = totals[g + c] * *keep + total;
                    }
                    let sums = sums.add(g * dim);
                    (attention.kernels.values[count - 1])(scores, RUN, values, dim, &keep, sums);
                }
                g += count;
            }
            from = to;
        }
        for (g, total) in totals.iter().enumerate().take(group) {
            let share = if *total == 0.0 { 0.0 } else { 1.0 / total };
            for i in g * dim..(g + 1) * dim {
                // SAFETY: the row's heads of this group lie in the output.
                unsafe { *attention.out.f32().add(at + i) = *sums.add(i) * share };
            }
        }
        Ok(())
    }
}

impl Task for RowByRow {
    fn solo(&self, _phase: usize) -> bool {
        false
    }

    unsafe fn run(&self, _phase: usize, crew: &mut Crew<'_>) {
        let heads_kv = self.0.heads.n_head_kv as usize;
        let total = self.0.m * heads_kv;
        while let Some(items) = crew.claim(1, total) {
            for item in items {
                // The last rows see most, so they go first.
                let item = total - 1 - item;
                // SAFETY: row and head are below their limits; each item writes
                // only its own part of the output.
                let done = unsafe { self.item(item / heads_kv, item % heads_kv, crew.arena) };
                if let Err(text) = done {
                    return crew.refusal.say(|| text);
                }
            }
        }
    }
}
