//! Launch shapes over relaid weights: one block a multiprocessor, its shared memory a ring of weights and the activations.

use cajeta_plugin_api::abi::Problem;
use cajeta_plugin_api::catalog::op::Op;
use cajeta_plugin_api::catalog::scalars::{RopeAppendScalars, read_step};
use cajeta_plugin_api::{Answer, Fault};

use super::shape::{Stage, one, size};
use crate::registry::{Entry, Kind, ROW_UNIT, Stream, Tile, UNIT, tile_of};

/// Widest activations a block holds.
pub(crate) const STREAM_WIDTH_MAX: u64 = 32_768;
/// Threads of a block, and its waves.
const THREADS: u32 = 256;
const WAVES: u64 = 8;
/// Threads of a block of a relayout, and waves of it.
const RELAYOUT_THREADS: u32 = 128;

/// The kernels of a launch.
///
/// # Errors
/// A problem beyond a grid; scalars that are not the row's.
pub(super) fn stages(
    entry: Entry,
    problem: &Problem,
    scalars: &[u8],
    multiprocessors: u64,
) -> Answer<Vec<Stage>> {
    let formats: Vec<Tile> = formats(entry).into_iter().filter_map(tile_of).collect();
    if entry.kind == Kind::Relayout {
        let units = Tile::count(problem.n).saturating_mul(problem.k / UNIT);
        let blocks = units.div_ceil(u64::from(RELAYOUT_THREADS / 32));
        return Ok(one([size("units / 4", blocks, i32::MAX as u64)?, 1, 1], RELAYOUT_THREADS));
    }
    if problem.k > STREAM_WIDTH_MAX {
        return Err(Fault::unsupported(format!(
            "K = {}, at most {STREAM_WIDTH_MAX} fits a block",
            problem.k
        )));
    }
    let jobs = match entry.kind {
        Kind::Stream(Stream::NormQkv { .. }) => {
            let ops = [Op::Norm, Op::Matmul, Op::Matmul, Op::Matmul, Op::RopeAppend];
            let heads: RopeAppendScalars = read_step(&ops, 4, scalars).ok_or_else(|| {
                Fault::invalid(format!("{} bytes of scalars are not the row's", scalars.len()))
            })?;
            let width = |heads_of: u32| u64::from(heads_of) * u64::from(heads.head_dim);
            Tile::count(width(heads.n_head)) + 2 * Tile::count(width(heads.n_head_kv))
        }
        _ => Tile::count(problem.n),
    };
    // One a multiprocessor: the room of a second is for the weights the launch behind asks for.
    let blocks = jobs.clamp(1, multiprocessors);
    let slot = formats.iter().map(|tile| tile.bytes).max().unwrap_or(0);
    // As `stream.h` says: about as many bytes on their way for each format.
    let stages = if slot > 3000 { 3 } else { 4 };
    let shared = WAVES * stages * slot + problem.k / UNIT * ROW_UNIT;
    let stage = Stage {
        kernel: 0,
        grid: [size("blocks", blocks, i32::MAX as u64)?, 1, 1],
        threads: THREADS,
        shared: size("shared bytes", shared, u64::from(u32::MAX))?,
    };
    Ok(vec![stage])
}

/// The formats of the weights a row reads.
fn formats(entry: Entry) -> Vec<cajeta_plugin_api::catalog::quant::Format> {
    let value = match entry.kind {
        Kind::Stream(Stream::NormQkv { value }) => Some(value),
        _ => None,
    };
    entry.format.into_iter().chain(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_plugin_api::abi::Regime;
    use cajeta_plugin_api::catalog::quant::Format;

    #[test]
    fn a_down_projection_by_hand() {
        let kind = Kind::Stream(Stream::ProductAdd);
        let entry = Entry { kind, format: Some(Format::Q6_K), regime: Regime::DECODE_ROW };
        let problem = Problem { m: 1, n: 4096, k: 14_336, ..Problem::default() };
        let stage = &stages(entry, &problem, &[], 132).unwrap()[0];
        assert_eq!((stage.grid, stage.shared), ([132, 1, 1], 24 * 3360 + 56 * 580));
        let narrow = Problem { n: 40, ..problem };
        assert_eq!(stages(entry, &narrow, &[], 132).unwrap()[0].grid, [3, 1, 1]);
        assert!(stages(entry, &Problem { k: 1 << 20, ..problem }, &[], 132).is_err());
    }
}
