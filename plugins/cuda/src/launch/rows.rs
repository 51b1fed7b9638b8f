//! Launch shapes over packed activation rows: the inputs are split between blocks, so that a block's share of the rows fits
//! its shared memory beside the weights on their way.

use cajeta_plugin_api::abi::Problem;
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::{Answer, Fault};

use super::shape::{Needs, Stage, one, size};
use crate::registry::{Entry, Kind, ROW_UNIT, ROWS_MOST, RowsStream, Tile, UNIT, padded, tile_of};

/// Threads of a block, and its waves.
const THREADS: u32 = 256;
const WAVES: u64 = 8;
/// Bytes of packed rows a block holds where two share a multiprocessor.
const INPUTS: u64 = 76_000;
/// Dynamic shared bytes a block may have where it is alone: what the targets there is code for give, less what is fixed.
const SHARED: u64 = 231_000;
/// Features of a tile.
const FEATURES: u64 = 16;

/// Shares the inputs are split in: as few as fit, since the shares' sums meet in memory.
pub(super) fn split(entry: Entry, problem: &Problem) -> u32 {
    let units = (problem.k / UNIT).max(1);
    let rows = padded(problem.m);
    let room = if rows < ROWS_MOST { INPUTS } else { SHARED - ring(entry, rows) - meeting(entry, rows) };
    units.div_ceil((room / (rows * ROW_UNIT)).max(1)).clamp(1, units) as u32
}

/// Bytes of weights on their way, as `stream_rows.h` says.
fn ring(entry: Entry, rows: u64) -> u64 {
    let slot = formats(entry).into_iter().filter_map(tile_of).map(|tile| tile.bytes).max().unwrap_or(0);
    let stages = match (rows, slot) {
        (ROWS_MOST, _) => 2,
        (_, 0..=3000) => 4,
        _ => 3,
    };
    WAVES * stages * slot
}

/// Bytes where the waves' sums meet, twice, with their counters.
fn meeting(entry: Entry, rows: u64) -> u64 {
    let parts = if matches!(entry.kind, Kind::Rows(RowsStream::GateUp { .. })) { 2 } else { 1 };
    let counters = (2 + 2 + WAVES) * 8;
    (2 * parts * rows * FEATURES * (WAVES + 1) * 4 + counters).next_multiple_of(128)
}

/// Tiles of a launch, and how many of them belong together.
fn jobs(entry: Entry, problem: &Problem) -> (u64, u64) {
    match entry.kind {
        Kind::Rows(RowsStream::Qkv { .. }) => {
            (Tile::count(problem.n).saturating_add(Tile::count(problem.aux).saturating_mul(2)), 1)
        }
        Kind::Rows(RowsStream::GateUp { .. }) => (Tile::count(problem.n), 2),
        _ => (Tile::count(problem.n), 1),
    }
}

/// What a launch takes beside its arguments: every share's sums, and a counter a job.
pub(super) fn needs(entry: Entry, problem: &Problem, split: u32) -> Answer<Needs> {
    if split <= 1 {
        return Ok(Needs::default());
    }
    let (jobs, parts) = jobs(entry, problem);
    let scratch = jobs
        .checked_mul(u64::from(split))
        .and_then(|tiles| tiles.checked_mul(parts * padded(problem.m) * FEATURES * 4))
        .ok_or_else(|| Fault::invalid(format!("the sums of {} features overflow 64 bits", problem.n)))?;
    Ok(Needs { scratch, semaphores: jobs * 4 })
}

/// The kernels of a launch.
///
/// # Errors
/// A problem beyond a grid; more shares than inputs.
pub(super) fn stages(
    entry: Entry,
    problem: &Problem,
    split: u32,
    multiprocessors: u64,
) -> Answer<Vec<Stage>> {
    let units = problem.k / UNIT;
    let rows = padded(problem.m);
    if let Kind::PackRows { .. } = entry.kind {
        let shared = size("shared bytes", units * ROW_UNIT, u64::from(u32::MAX))?;
        let stages = one([rows as u32, 1, 1], THREADS);
        return Ok(stages.into_iter().map(|stage| Stage { shared, ..stage }).collect());
    }
    let shares = u64::from(split.max(1));
    if shares > units {
        return Err(Fault::invalid(format!("{shares} shares of {units} units of inputs")));
    }
    let (jobs, _) = jobs(entry, problem);
    let inputs = units.div_ceil(shares) * rows * ROW_UNIT;
    let blocks = (multiprocessors / shares).clamp(1, jobs.max(1));
    let stage = Stage {
        kernel: match rows {
            4 => 0,
            8 => 1,
            _ => 2,
        },
        grid: [size("blocks", blocks, i32::MAX as u64)?, split.max(1), 1],
        threads: THREADS,
        shared: size("shared bytes", ring(entry, rows) + meeting(entry, rows) + inputs, SHARED)?,
    };
    Ok(vec![stage])
}

/// The formats of the weights a row reads.
fn formats(entry: Entry) -> Vec<Format> {
    let value = match entry.kind {
        Kind::Rows(RowsStream::Qkv { value }) => Some(value),
        _ => None,
    };
    entry.format.into_iter().chain(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_plugin_api::abi::Regime;

    fn entry(kind: RowsStream, format: Format) -> Entry {
        Entry { kind: Kind::Rows(kind), format: Some(format), regime: Regime::DECODE_COLS }
    }

    #[test]
    fn shares_of_the_inputs_by_hand() {
        let at = |m, k| {
            let problem = Problem { m, k, n: 4096, ..Problem::default() };
            split(entry(RowsStream::ProductAdd, Format::Q4_K), &problem)
        };
        assert_eq!((at(1, 4096), at(4, 4096), at(8, 4096), at(16, 4096)), (1, 1, 1, 1));
        assert_eq!((at(4, 14_336), at(8, 14_336), at(16, 14_336)), (2, 4, 4));
        let six = entry(RowsStream::GateUp { gelu: true }, Format::Q6_K);
        assert_eq!(split(six, &Problem { m: 16, k: 4096, n: 4096, ..Problem::default() }), 2);
    }

    #[test]
    fn a_block_fits_a_multiprocessor() {
        for (kind, format) in [
            (RowsStream::GateUp { gelu: false }, Format::Q4_K),
            (RowsStream::ProductAdd, Format::Q6_K),
            (RowsStream::Qkv { value: Format::Q6_K }, Format::Q4_K),
        ] {
            let entry = entry(kind, format);
            for (m, k) in [(1, 256), (4, 14_336), (8, 4096), (16, 4096), (16, 14_336), (16, 32_768)] {
                let problem = Problem { m, k, n: 4096, aux: 1024, ..Problem::default() };
                let stage = &stages(entry, &problem, split(entry, &problem), 132).unwrap()[0];
                assert!(u64::from(stage.shared) <= SHARED, "{kind:?} {m} x {k}: {} bytes", stage.shared);
                assert!(stage.grid[0] * stage.grid[1] <= 132);
            }
        }
    }
}
