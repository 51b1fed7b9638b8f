//! Which kernels a launch runs, in which grid.

use cajeta_plugin_api::abi::{Problem, Regime};
use cajeta_plugin_api::{Answer, Fault};

use super::{attention, choice};
use crate::registry::{Entry, Kind};

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
/// More than 64 bits count; scalars that are not the row's.
pub(crate) fn needs(entry: Entry, problem: &Problem, scalars: &[u8], split: u32) -> Answer<Needs> {
    match entry.kind {
        Kind::Attention => attention::needs(problem, scalars, split),
        Kind::Argmax | Kind::Sample => choice::needs(entry.kind, problem),
        Kind::Rows(_) => super::rows::needs(entry, problem, split),
        _ => Ok(Needs::default()),
    }
}

/// Parts the reduction of a launch is split in.
///
/// # Errors
/// Scalars that are not the row's.
pub(crate) fn split(entry: Entry, problem: &Problem, scalars: &[u8], multiprocessors: u64) -> Answer<u32> {
    match entry.kind {
        Kind::Attention => attention::split(entry, problem, scalars, multiprocessors),
        Kind::Rows(_) => Ok(super::rows::split(entry, problem)),
        _ => Ok(1),
    }
}

/// Most parts it may be split in: what fills the device by count need not fill it by time.
pub(crate) fn split_most(entry: Entry, problem: &Problem, fewest: u32) -> u32 {
    match entry.kind {
        Kind::Attention => attention::split_most(entry, problem, fewest),
        _ => fewest,
    }
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
        // A row's heads are dealt to blocks while there are few rows.
        Kind::RopeAppend { .. } => one([size("M", m, LINE)?, (256 / m.max(1)).clamp(1, 32) as u32, 1], 128),
        Kind::Argmax | Kind::Sample => {
            let parts = size("parts", choice::parts(entry.kind, problem), SIDE)?;
            one([size("M", m, LINE)?, parts, 1], 512)
        }
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
        Kind::Attention => attention::stages(problem, scalars, split)?,
        Kind::Relayout | Kind::Stream(_) => super::stream::stages(entry, problem, scalars, multiprocessors)?,
        Kind::PackRows { .. } | Kind::Rows(_) => super::rows::stages(entry, problem, split, multiprocessors)?,
    })
}
