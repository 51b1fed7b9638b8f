//! Which kernels a launch runs, in which grid.

use cajeta_plugin_api::abi::{Problem, Regime};
use cajeta_plugin_api::catalog::op::Op;
use cajeta_plugin_api::catalog::scalars::{AttentionScalars, read_step};
use cajeta_plugin_api::{Answer, Fault};

use crate::registry::{Entry, Kind};

/// Longest head the kernels hold.
pub(crate) const HEAD_DIM_MAX: u32 = 256;
/// Most query heads of a group, and (row, head) pairs of a block of attention.
pub(crate) const GROUP_MAX: u32 = 16;
/// Positions a block of attention takes at a time: the width of a wave.
const POSITIONS: u32 = 32;
/// Halves between two keys of a tile beyond their own, against bank conflicts.
const PAD: u32 = 8;
/// Most parts attention is split in.
const SPLIT_MAX: u64 = 64;

/// One kernel of a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stage {
    /// Index in [`Entry::kernels`].
    pub(crate) kernel: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) threads: u32,
    pub(crate) shared: u32,
}

pub(super) fn size(letter: &str, value: u64, most: u64) -> Answer<u32> {
    if value > most {
        return Err(Fault::unsupported(format!("{letter} = {value}, more than a grid of {most}")));
    }
    Ok(value as u32)
}

pub(super) fn one(grid: [u32; 3], threads: u32) -> Vec<Stage> {
    vec![Stage { kernel: 0, grid, threads, shared: 0 }]
}

/// What a launch takes beside its arguments, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Needs {
    pub(crate) scratch: u64,
    pub(crate) semaphores: u64,
}

/// What a launch in `split` parts takes.
///
/// # Errors
/// More than 64 bits count.
pub(crate) fn needs(entry: Entry, problem: &Problem, split: u32) -> Answer<Needs> {
    if entry.kind != Kind::Attention {
        return Ok(Needs::default());
    }
    let scratch = attention_scratch(problem, split).ok_or_else(|| {
        Fault::invalid(format!("the parts of {} rows of {} overflow 64 bits", problem.m, problem.n))
    })?;
    Ok(Needs { scratch, semaphores: 0 })
}

/// Parts the reduction of a launch is split in.
pub(crate) fn split(entry: Entry, problem: &Problem, multiprocessors: u64) -> u32 {
    if entry.kind == Kind::Attention { attention_split(entry, problem, multiprocessors) } else { 1 }
}

/// The kernels of a launch in order.
///
/// # Errors
/// A problem beyond a grid; heads the kernels do not hold.
pub(crate) fn stages(
    entry: Entry,
    problem: &Problem,
    scalars: &[u8],
    split: u32,
    multiprocessors: u64,
) -> Answer<Vec<Stage>> {
    const LINE: u64 = i32::MAX as u64;
    const SIDE: u64 = 65_535;
    let Problem { m, n, k, .. } = *problem;
    Ok(match entry.kind {
        Kind::Embed => one([size("M", m, LINE)?, 1, 1], 128),
        Kind::Norm => one([size("M", m, LINE)?, 1, 1], 256),
        Kind::Add | Kind::Glu { .. } | Kind::Copy => {
            one([size("M x K / 256", m.saturating_mul(k).div_ceil(256), LINE)?, 1, 1], 256)
        }
        Kind::RopeAppend { .. } => one([size("M", m, LINE)?, 1, 1], 128),
        Kind::Argmax => one([size("M", m, LINE)?, 1, 1], 1024),
        Kind::Sample => one([size("M", m, LINE)?, 1, 1], 512),
        Kind::Advance => one([1, 1, 1], 128),
        Kind::MatVec => {
            let (kernel, columns) = match (entry.regime, m) {
                (Regime::DECODE_ROW, _) | (_, 0 | 1) => (0, 1),
                (_, 2) => (1, 2),
                (_, 3 | 4) => (2, 4),
                _ => (3, 8),
            };
            let grid = [size("N / 4", n.div_ceil(4), LINE)?, size("M", m.div_ceil(columns), SIDE)?, 1];
            vec![Stage { kernel, grid, threads: 128, shared: 0 }]
        }
        Kind::TileGemm => {
            one([size("N / 64", n.div_ceil(64), LINE)?, size("M / 64", m.div_ceil(64), SIDE)?, 1], 256)
        }
        Kind::Attention => attention(problem, scalars, split)?,
        Kind::Relayout | Kind::Stream(_) => super::stream::stages(entry, problem, scalars, multiprocessors)?,
    })
}

fn attention(problem: &Problem, scalars: &[u8], split: u32) -> Answer<Vec<Stage>> {
    let heads: AttentionScalars = read_step(&[Op::Attention], 0, scalars)
        .ok_or_else(|| Fault::invalid(format!("{} bytes of scalars are not attention's", scalars.len())))?;
    let group = heads.n_head.checked_div(heads.n_head_kv).unwrap_or(0);
    let dim = heads.head_dim;
    if group == 0 || group > GROUP_MAX || dim == 0 || !dim.is_multiple_of(16) || dim > HEAD_DIM_MAX {
        return Err(Fault::unsupported(format!(
            "{group} query heads a group of {dim} elements: expected at most {GROUP_MAX} and a multiple of 16 up to {HEAD_DIM_MAX}"
        )));
    }
    let kernel = match dim {
        0..=64 => 0,
        65..=128 => 1,
        _ => 2,
    };
    // Queries in f32; keys and values of a tile in f16.
    let shared = GROUP_MAX * dim * 4 + 2 * POSITIONS * (dim + PAD) * 2;
    let rows = size("M", problem.m, i32::MAX as u64)?;
    let grid =
        [rows.div_ceil(GROUP_MAX / group), size("K/V heads", u64::from(heads.n_head_kv), 65_535)?, split];
    let mut stages = vec![Stage { kernel, grid, threads: 128, shared }];
    if split > 1 {
        let grid = [rows, size("heads", u64::from(heads.n_head), 65_535)?, 1];
        stages.push(Stage { kernel: 3, grid, threads: 128, shared: 0 });
    }
    Ok(stages)
}

/// Parts attention is split in, so that few rows fill the device. Depends on the context bucket and not on how much of
/// it is used: a list serves every length of its bucket.
fn attention_split(entry: Entry, problem: &Problem, multiprocessors: u64) -> u32 {
    if entry.regime == Regime::PREFILL_BATCH {
        return 1;
    }
    // About eight K/V heads a model; two blocks a multiprocessor.
    let wanted = (2 * multiprocessors).div_ceil(8 * problem.m.max(1));
    let pieces = problem.k / 64;
    wanted.min(pieces).clamp(1, SPLIT_MAX) as u32
}

/// Scratch of split attention: the parts' answers, and a maximum and a total a (part, row, head).
fn attention_scratch(problem: &Problem, split: u32) -> Option<u64> {
    if split <= 1 {
        return Some(0);
    }
    // A head has at least 16 elements.
    let words = problem.n.checked_add((problem.n / 16).checked_mul(2)?)?;
    u64::from(split).checked_mul(problem.m)?.checked_mul(words)?.checked_mul(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_is_split_to_fill_the_device() {
        let entry = Entry { kind: Kind::Attention, format: None, regime: Regime::DECODE_ROW };
        let at = |m, k| attention_split(entry, &Problem { m, n: 4096, k, batch: m, aux: 0 }, 132);
        assert_eq!((at(1, 256), at(1, 8192), at(16, 8192), at(64, 8192)), (4, 33, 3, 1));
        let prefill = Entry { regime: Regime::PREFILL_BATCH, ..entry };
        assert_eq!(attention_split(prefill, &Problem { m: 1, k: 8192, ..Problem::default() }, 132), 1);
    }
}
