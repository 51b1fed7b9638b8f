//! `attention` of few query rows: each (row, K/V head, run of positions) is one
//! item, and the runs' partial answers are joined in a second phase.

use cajeta_plugin_api::catalog::kv::{BLOCK_POSITIONS, block_bytes, element};
use cajeta_plugin_api::catalog::scalars::AttentionScalars;

use super::operands::Memory;
use super::{Crew, Task};
use crate::kernel::table::Kernels;

/// Positions of one item. Fixed, so that a row's answer does not depend on what
/// else is in the step.
pub(crate) const RUN: usize = 256;
/// Query rows up to which this form serves.
pub(crate) const FEW_ROWS: usize = 16;
/// Query heads a kernel takes at once.
pub(crate) const TOGETHER: usize = 4;

/// The operands of attention, and what the two forms share.
pub(crate) struct Attention {
    pub(crate) kernels: &'static Kernels,
    pub(crate) m: usize,
    pub(crate) seqs: usize,
    /// Largest `kv_len` served.
    pub(crate) bucket: usize,
    pub(crate) heads: AttentionScalars,
    pub(crate) q: Memory,
    pub(crate) k_plane: Memory,
    pub(crate) v_plane: Memory,
    pub(crate) seq_start: Memory,
    pub(crate) kv_len: Memory,
    pub(crate) tables: Memory,
    pub(crate) sinks: Option<Memory>,
    pub(crate) out: Memory,
}

/// A sequence's rows and cached positions.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) seq: usize,
    pub(crate) first: usize,
    pub(crate) queries: usize,
    pub(crate) kv_len: usize,
}

impl Attention {
    pub(crate) fn group(&self) -> usize {
        (self.heads.n_head / self.heads.n_head_kv) as usize
    }

    pub(crate) fn dim(&self) -> usize {
        self.heads.head_dim as usize
    }

    /// Width of a query row.
    pub(crate) fn width(&self) -> usize {
        self.heads.n_head as usize * self.dim()
    }

    /// The rows of a sequence, checked against the launch.
    ///
    /// # Safety
    /// As [`Task::run`]; `seq` is below the number of sequences.
    pub(crate) unsafe fn rows(&self, seq: usize) -> Result<Rows, String> {
        // SAFETY: seqs + 1 starts and seqs lengths were checked to be there.
        let (first, end, kv_len) = unsafe {
            (
                *self.seq_start.u32().add(seq) as usize,
                *self.seq_start.u32().add(seq + 1) as usize,
                *self.kv_len.u32().add(seq) as usize,
            )
        };
        if first > end || end > self.m {
            return Err(format!("sequence {seq} owns rows {first}..{end} of {}", self.m));
        }
        let queries = end - first;
        let room = self.bucket.min(self.heads.max_blocks as usize * BLOCK_POSITIONS as usize);
        if kv_len < queries || kv_len > room {
            return Err(format!(
                "sequence {seq} has kv_len {kv_len}, expected at least its {queries} rows and at most {room}"
            ));
        }
        Ok(Rows { seq, first, queries, kv_len })
    }

    /// The sequence of a row; `None` when no sequence owns it.
    ///
    /// # Safety
    /// As [`Task::run`].
    pub(crate) unsafe fn sequence(&self, row: usize) -> Result<Option<Rows>, String> {
        for seq in 0..self.seqs {
            // SAFETY: `seq` is below the number of sequences.
            let rows = unsafe { self.rows(seq)? };
            if (rows.first..rows.first + rows.queries).contains(&row) {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// The positions query `index` of a sequence sees.
    pub(crate) fn seen(&self, rows: Rows, index: usize) -> (usize, usize) {
        let position = rows.kv_len - rows.queries + index;
        let end = if self.heads.causal != 0 { position + 1 } else { rows.kv_len };
        let window = self.heads.window as usize;
        let start = if window == 0 { 0 } else { (position + 1).saturating_sub(window) };
        (start, end)
    }

    /// Element of a plane where a position's head starts.
    ///
    /// # Safety
    /// As [`Task::run`]; `position` is below the sequence's `kv_len`.
    pub(crate) unsafe fn place(&self, seq: usize, position: usize, head: usize) -> Result<usize, String> {
        let AttentionScalars { n_head_kv, head_dim, max_blocks, .. } = self.heads;
        let entry = position / BLOCK_POSITIONS as usize;
        // SAFETY: kv_len is at most 16 * max_blocks, so the entry is the sequence's own.
        let block = unsafe { *self.tables.u32().add(seq * max_blocks as usize + entry) };
        let blocks = self.k_plane.len().min(self.v_plane.len()) / block_bytes(n_head_kv, head_dim);
        if u64::from(block) >= blocks {
            return Err(format!(
                "sequence {seq}, position {position}: block {block} is out of range, expected less than {blocks}"
            ));
        }
        let slot = position as u32 % BLOCK_POSITIONS;
        Ok(element(block, head as u32, slot, n_head_kv, head_dim) as usize)
    }

    /// Where `keys.len()` positions from `from` have their key and their value.
    ///
    /// # Safety
    /// As [`Task::run`]; the positions are below the sequence's `kv_len`.
    pub(crate) unsafe fn gather(
        &self,
        seq: usize,
        head_kv: usize,
        from: usize,
        keys: &mut [*const u16],
        values: &mut [*const u16],
    ) -> Result<(), String> {
        for (position, (key, value)) in (from..).zip(keys.iter_mut().zip(values)) {
            // SAFETY: `position` is below kv_len; the place is within both planes.
            unsafe {
                let at = self.place(seq, position, head_kv)?;
                *key = self.k_plane.u16().add(at);
                *value = self.v_plane.u16().add(at);
            }
        }
        Ok(())
    }
}

/// Runs a context of `bucket` positions has.
fn runs(bucket: usize) -> usize {
    bucket.div_ceil(RUN).max(1)
}

/// Scratch that attention of `m` rows of `n` values over `k` positions takes.
/// Heads are at least 16 wide, so `n / 16` bounds their number.
pub(crate) fn scratch_bytes(m: u64, n: u64, k: u64) -> Option<u64> {
    if m > FEW_ROWS as u64 {
        return Some(0);
    }
    let runs = k.div_ceil(RUN as u64).max(1);
    let row = n.checked_add((n / 16).checked_mul(2)?)?;
    m.checked_mul(runs)?.checked_mul(row)?.checked_mul(4)
}

/// Attention of few rows.
pub(crate) struct FewRows {
    pub(crate) attention: Attention,
    /// `[row][run]` of (a row of sums, a maximum per head, a total per head).
    pub(crate) partial: Memory,
}

impl FewRows {
    /// Where the partial answer of (row, run) starts.
    fn partial_at(&self, row: usize, run: usize) -> usize {
        let row_len = self.attention.width() + 2 * self.attention.heads.n_head as usize;
        (row * runs(self.attention.bucket) + run) * row_len
    }

    /// One run of positions of one K/V head for one row.
    ///
    /// # Safety
    /// As [`Task::run`]; the three numbers are below their limits.
    unsafe fn item(&self, row: usize, head_kv: usize, run: usize, arena: *mut f32) -> Result<(), String> {
        let attention = &self.attention;
        let (dim, group) = (attention.dim(), attention.group());
        // SAFETY: passed on from the caller.
        let Some(rows) = (unsafe { attention.sequence(row)? }) else { return Ok(()) };
        let (start, end) = attention.seen(rows, row - rows.first);
        let (from, to) = (start.max(run * RUN), end.min((run + 1) * RUN));
        if from >= to {
            return Ok(());
        }
        let (mut keys, mut values) = ([std::ptr::null(); RUN], [std::ptr::null(); RUN]);
        let (keys, values) = (&mut keys[..to - from], &mut values[..to - from]);
        // SAFETY: positions from..to are below kv_len.
        unsafe { attention.gather(rows.seq, head_kv, from, keys, values)? };
        let partial = self.partial_at(row, run);
        let mut g = 0;
        while g < group {
            let count = (group - g).min(TOGETHER);
            let head = head_kv * group + g;
            // SAFETY: `head..head + count` are heads of the row; the arena holds
            // `count` scaled queries and as many rows of RUN scores; the partial
            // answer of this (row, run) holds a row of sums, then maxima, then totals.
            unsafe {
                let query = arena;
                let score = arena.add(TOGETHER * dim);
                let from = attention.q.f32().add(row * attention.width() + head * dim);
                for i in 0..count * dim {
                    *query.add(i) = *from.add(i) * attention.heads.scale;
                }
                (attention.kernels.scores[count - 1])(query, dim, keys, score, RUN);
                let sums = self.partial.f32().add(partial + head * dim);
                let maxima = self.partial.f32().add(partial + attention.width());
                let totals = maxima.add(attention.heads.n_head as usize);
                for c in 0..count {
                    let row = score.add(c * RUN);
                    let (maximum, total) = (attention.kernels.weights)(
                        row,
                        keys.len(),
                        attention.heads.softcap,
                        f32::NEG_INFINITY,
                    );
                    *maxima.add(head + c) = maximum;
                    *totals.add(head + c) = total;
                }
                std::slice::from_raw_parts_mut(sums, count * dim).fill(0.0);
                (attention.kernels.values[count - 1])(score, RUN, values, dim, &[0.0; TOGETHER], sums);
            }
            g += count;
        }
        Ok(())
    }

    /// Joins the runs of one head of one row.
    ///
    /// # Safety
    /// As [`Task::run`]; `row` and `head` are below their limits.
    unsafe fn join(&self, row: usize, head: usize) -> Result<(), String> {
        let attention = &self.attention;
        let dim = attention.dim();
        // SAFETY: passed on from the caller.
        let Some(rows) = (unsafe { attention.sequence(row)? }) else { return Ok(()) };
        let (start, end) = attention.seen(rows, row - rows.first);
        let filled = if start < end { start / RUN..end.div_ceil(RUN) } else { 0..0 };
        let width = attention.width();
        let n_head = attention.heads.n_head as usize;
        // SAFETY: phase 0 wrote the partial answers of the filled runs; the
        // output holds m rows of `width`; the sinks one value per head.
        unsafe {
            let at = |run: usize| self.partial.f32().add(self.partial_at(row, run));
            let sink = attention.sinks.map(|sinks| *sinks.f32().add(head));
            let maximum = filled
                .clone()
                .map(|run| *at(run).add(width + head))
                .chain(sink)
                .fold(f32::NEG_INFINITY, f32::max);
            let mut total = sink.map_or(0.0, |sink| (sink - maximum).exp());
            let out = std::slice::from_raw_parts_mut(attention.out.f32().add(row * width + head * dim), dim);
            out.fill(0.0);
            for run in filled {
                let partial = at(run);
                let keep = (*partial.add(width + head) - maximum).exp();
                total += *partial.add(width + n_head + head) * keep;
                for (i, out) in out.iter_mut().enumerate() {
                    *out += *partial.add(head * dim + i) * keep;
                }
            }
            if total != 0.0 {
                let share = 1.0 / total;
                out.iter_mut().for_each(|value| *value *= share);
            }
        }
        Ok(())
    }
}

impl Task for FewRows {
    fn phases(&self) -> usize {
        2
    }

    fn solo(&self, phase: usize) -> bool {
        let attention = &self.attention;
        phase == 1 && attention.m * attention.width() * runs(attention.bucket) < 32 * 1024
    }

    unsafe fn run(&self, phase: usize, crew: &mut Crew<'_>) {
        let attention = &self.attention;
        let (heads, heads_kv) = (attention.heads.n_head as usize, attention.heads.n_head_kv as usize);
        let runs = runs(attention.bucket);
        let total = if phase == 0 { attention.m * heads_kv * runs } else { attention.m * heads };
        let chunk = if phase == 0 { 1 } else { crew.chunk(total, 2, 1) };
        while let Some(items) = crew.claim(chunk, total) {
            for item in items {
                // SAFETY: the numbers taken apart are below their limits; each
                // item writes only its own partial answer or output.
                let done = unsafe {
                    if phase == 0 {
                        let (row, rest) = (item / (heads_kv * runs), item % (heads_kv * runs));
                        self.item(row, rest % heads_kv, rest / heads_kv, crew.arena)
                    } else {
                        self.join(item / heads, item % heads)
                    }
                };
                if let Err(text) = done {
                    crew.refusal.say(|| text);
                    return;
                }
            }
        }
    }
}
