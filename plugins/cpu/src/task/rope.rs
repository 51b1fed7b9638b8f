//! `rope_append`: rotates queries in place, keys on their way into the cache.

use cajeta_plugin_api::catalog::kv::{BLOCK_POSITIONS, block_bytes, element};
use cajeta_plugin_api::catalog::scalars::RopeAppendScalars;

use super::operands::Memory;
use super::{Crew, Task};
use crate::kernel::table::Kernels;

/// Largest head this backend rotates and attends, in elements.
pub(crate) const HEAD_DIM_MAX: usize = 256;

/// Rotates and appends `m` rows.
pub(crate) struct RopeTask {
    pub(crate) kernels: &'static Kernels,
    pub(crate) m: usize,
    pub(crate) seqs: usize,
    pub(crate) heads: RopeAppendScalars,
    pub(crate) pairs: bool,
    pub(crate) q: Memory,
    pub(crate) k: Memory,
    pub(crate) v: Memory,
    pub(crate) positions: Memory,
    pub(crate) row_seq: Memory,
    pub(crate) tables: Memory,
    pub(crate) factors: Option<Memory>,
    pub(crate) k_plane: Memory,
    pub(crate) v_plane: Memory,
    /// Angle per position of each frequency, before the factors.
    pub(crate) turns: Vec<f64>,
    /// Multiplies sine and cosine.
    pub(crate) magnitude: f64,
}

/// Angle per position of each frequency: `freq_scale * base^(-2i/dim)`, blended
/// by the YaRN ramp with the unscaled angle where the scalars ask for it.
pub(crate) fn turns(heads: &RopeAppendScalars) -> Vec<f64> {
    let dim = f64::from(heads.rope_dim);
    let base = f64::from(heads.base);
    let scale = f64::from(heads.freq_scale);
    let yarn = heads.original_context != 0;
    let index = |rotations: f32| {
        let context = f64::from(heads.original_context);
        let wavelength = context / (2.0 * std::f64::consts::PI * f64::from(rotations));
        dim * wavelength.ln() / (2.0 * base.ln())
    };
    let (low, high) = if yarn {
        (index(heads.beta_fast).floor().max(0.0), index(heads.beta_slow).ceil().min(dim - 1.0))
    } else {
        (0.0, 0.0)
    };
    (0..heads.rope_dim / 2)
        .map(|i| {
            let plain = base.powf(-2.0 * f64::from(i) / dim);
            if !yarn {
                return scale * plain;
            }
            let along = ((f64::from(i) - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
            let share = (1.0 - along) * f64::from(heads.ext_factor);
            scale * plain * (1.0 - share) + plain * share
        })
        .collect()
}

impl Task for RopeTask {
    fn solo(&self, _phase: usize) -> bool {
        self.m < 4
    }

    unsafe fn run(&self, _phase: usize, crew: &mut Crew<'_>) {
        let chunk = crew.chunk(self.m, 4, 1);
        while let Some(rows) = crew.claim(chunk, self.m) {
            for row in rows {
                // SAFETY: `row` is below m, claimed by this thread alone.
                if let Err(text) = unsafe { self.row(row, crew.arena) } {
                    crew.refusal.say(|| format!("row {row}: {text}"));
                }
            }
        }
    }
}

impl RopeTask {
    /// # Safety
    /// As [`Task::run`]; `row` is below m, `arena` is this thread's own.
    unsafe fn row(&self, row: usize, arena: *mut f32) -> Result<(), String> {
        let RopeAppendScalars { n_head, n_head_kv, head_dim, max_blocks, .. } = self.heads;
        let (half, dim) = (self.turns.len(), head_dim as usize);
        // SAFETY: m positions and m row sequences were checked to be there.
        let (position, seq) =
            unsafe { (*self.positions.u32().add(row), *self.row_seq.u32().add(row) as usize) };
        if seq >= self.seqs {
            return Err(format!("sequence {seq} is out of range, expected less than {}", self.seqs));
        }
        let entry = position / BLOCK_POSITIONS;
        if entry >= max_blocks {
            let limit = u64::from(max_blocks) * u64::from(BLOCK_POSITIONS);
            return Err(format!("position {position} is out of range, expected less than {limit}"));
        }
        // SAFETY: the tables hold seqs * max_blocks entries.
        let block = unsafe { *self.tables.u32().add(seq * max_blocks as usize + entry as usize) };
        let blocks = self.k_plane.len().min(self.v_plane.len()) / block_bytes(n_head_kv, head_dim);
        if u64::from(block) >= blocks {
            return Err(format!("block {block} is out of range, expected less than {blocks}"));
        }
        // The arena holds cosines, sines, and one head of keys.
        // SAFETY: 2 * half + dim values are at most 2 * HEAD_DIM_MAX, far below the arena's size.
        let (cos, sin, head) = unsafe { (arena, arena.add(half), arena.add(2 * half)) };
        for (i, &turn) in self.turns.iter().enumerate() {
            // SAFETY: the factors hold half values.
            let factor = self.factors.map_or(1.0, |factors| f64::from(unsafe { *factors.f32().add(i) }));
            let (s, c) = (f64::from(position) * (turn / factor)).sin_cos();
            // SAFETY: `i` is below half.
            unsafe {
                *cos.add(i) = (c * self.magnitude) as f32;
                *sin.add(i) = (s * self.magnitude) as f32;
            }
        }
        let rotate = if self.pairs { self.kernels.rotate_pairs } else { self.kernels.rotate_halves };
        let slot = position % BLOCK_POSITIONS;
        // SAFETY: q holds m rows of n_head heads, k and v m rows of n_head_kv
        // heads; the block is within both planes, so its heads and slots are; no
        // other row of the launch has this sequence and position.
        unsafe {
            for h in 0..n_head as usize {
                rotate(self.q.f32().add((row * n_head as usize + h) * dim), cos, sin, half);
            }
            for h in 0..n_head_kv {
                let from = (row * n_head_kv as usize + h as usize) * dim;
                let to = element(block, h, slot, n_head_kv, head_dim) as usize;
                std::ptr::copy_nonoverlapping(self.k.f32().add(from), head, dim);
                rotate(head, cos, sin, half);
                (self.kernels.narrow)(head, self.k_plane.u16().add(to), dim);
                (self.kernels.narrow)(self.v.f32().add(from), self.v_plane.u16().add(to), dim);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_plugin_api::catalog::oracle::rope::Frequencies;

    #[test]
    fn turns_are_the_oracles() {
        let plain = RopeAppendScalars {
            n_head: 1,
            n_head_kv: 1,
            head_dim: 64,
            rope_dim: 64,
            max_blocks: 1,
            original_context: 0,
            base: 10000.0,
            freq_scale: 0.25,
            attn_factor: 1.0,
            ext_factor: 0.0,
            beta_fast: 0.0,
            beta_slow: 0.0,
        };
        let yarn = RopeAppendScalars {
            original_context: 4096,
            ext_factor: 1.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            ..plain
        };
        for (heads, is_yarn) in [(plain, false), (yarn, true)] {
            let expected = Frequencies::new(&heads, None, is_yarn).at(17);
            for (turn, (cos, sin)) in turns(&heads).into_iter().zip(expected) {
                let (s, c) = (17.0 * turn).sin_cos();
                assert!((s - sin).abs() < 1e-12 && (c - cos).abs() < 1e-12);
            }
        }
    }
}
