//! Launch shapes of attention: how many parts, which kernel holds the heads, what the parts leave for each other.

use cajeta_plugin_api::abi::{Problem, Regime};
use cajeta_plugin_api::catalog::op::Op;
use cajeta_plugin_api::catalog::scalars::{AttentionScalars, read_step};
use cajeta_plugin_api::{Answer, Fault};

use super::shape::{Needs, Stage, size};
use crate::registry::Entry;

/// Longest head the kernels hold.
pub(crate) const HEAD_DIM_MAX: u32 = 256;
/// Most query heads of a group, and (row, head) pairs of a block.
pub(crate) const GROUP_MAX: u32 = 16;
/// Threads of a block of the plain form; of the packed one, and its waves of 32.
const THREADS: u32 = 128;
const PACKED_THREADS: u32 = 256;
const WAVES: u32 = PACKED_THREADS / 32;
/// Positions a block of the plain form takes at a time: the width of a wave.
const POSITIONS: u32 = 32;
/// Halves between two keys of its tile beyond their own, against bank conflicts.
const PAD: u32 = 8;
/// Positions of a page, and the fewest a part is worth: a page a wave.
const PAGE: u32 = 16;
const PART_POSITIONS: u64 = 128;
/// Most parts.
const SPLIT_MAX: u64 = 64;
/// Index of the first kernel on the matrix units among the row's.
const PACKED: usize = 4;

/// The heads of a launch, as its scalars say.
struct Heads {
    /// Query heads a K/V head.
    group: u32,
    kv: u32,
    query: u32,
    dim: u32,
}

impl Heads {
    fn of(scalars: &[u8]) -> Answer<Heads> {
        let heads: AttentionScalars = read_step(&[Op::Attention], 0, scalars).ok_or_else(|| {
            Fault::invalid(format!("{} bytes of scalars are not attention's", scalars.len()))
        })?;
        let group = heads.n_head.checked_div(heads.n_head_kv).unwrap_or(0);
        let dim = heads.head_dim;
        if group == 0 || group > GROUP_MAX || dim == 0 || !dim.is_multiple_of(16) || dim > HEAD_DIM_MAX {
            return Err(Fault::unsupported(format!(
                "{group} query heads a group of {dim} elements: expected at most {GROUP_MAX} and a multiple of 16 up to {HEAD_DIM_MAX}"
            )));
        }
        Ok(Heads { group, kv: heads.n_head_kv, query: heads.n_head, dim })
    }

    /// Slabs of keys or values a wave of the packed form has on their way; `None` where only the plain form holds such heads.
    fn packed(&self) -> Option<(usize, u32)> {
        match self.dim {
            64 => Some((PACKED, 6)),
            128 => Some((PACKED + 1, 3)),
            256 => Some((PACKED + 2, 2)),
            _ => None,
        }
    }

    /// Most blocks of rows: a tile holds a few rows of one sequence.
    fn tiles(&self, problem: &Problem) -> u64 {
        let rows = u64::from(GROUP_MAX / self.group);
        match self.packed() {
            Some(_) => problem.m.min((problem.m / rows).saturating_add(problem.batch)).max(1),
            None => problem.m.div_ceil(rows),
        }
    }
}

/// Parts the positions are split in, so that few rows fill the device. Depends on the context bucket and not on how much of
/// it is used: a list serves every length of its bucket.
///
/// # Errors
/// Heads the kernels do not hold.
pub(super) fn split(entry: Entry, problem: &Problem, scalars: &[u8], multiprocessors: u64) -> Answer<u32> {
    let heads = Heads::of(scalars)?;
    if entry.regime == Regime::PREFILL_BATCH {
        return Ok(1);
    }
    let blocks = heads.tiles(problem).saturating_mul(u64::from(heads.kv)).max(1);
    // One block of the packed form fills a multiprocessor, and all take the same time: one more would run alone. The plain
    // form wants two.
    let wanted = match heads.packed() {
        Some(_) => multiprocessors / blocks,
        None => (2 * multiprocessors).div_ceil(blocks),
    };
    Ok(wanted.min(problem.k / PART_POSITIONS).clamp(1, SPLIT_MAX) as u32)
}

/// Most parts: twice as many, where that leaves each enough positions. Parts of one length end together only when all
/// sequences are of one length.
pub(super) fn split_most(entry: Entry, problem: &Problem, fewest: u32) -> u32 {
    if entry.regime == Regime::PREFILL_BATCH {
        return fewest;
    }
    let most = u64::from(fewest).saturating_mul(2).min(problem.k / PART_POSITIONS).min(SPLIT_MAX);
    u32::try_from(most).unwrap_or(fewest).max(fewest)
}

/// What the parts leave for each other.
///
/// # Errors
/// Heads the kernels do not hold; more than 64 bits count.
pub(super) fn needs(problem: &Problem, scalars: &[u8], split: u32) -> Answer<Needs> {
    let heads = Heads::of(scalars)?;
    if split <= 1 {
        return Ok(Needs::default());
    }
    let (parts, dim) = (u64::from(split), u64::from(heads.dim));
    let counted = if heads.packed().is_some() {
        // Sums, a maximum and a total a pair; a counter a tile and K/V head.
        let places = heads.tiles(problem).checked_mul(u64::from(heads.kv));
        let part = u64::from(GROUP_MAX) * (dim + 2) * 4;
        let scratch = places.and_then(|places| places.checked_mul(parts)?.checked_mul(part));
        scratch.zip(places.and_then(|places| places.checked_mul(4)))
    } else {
        let row = u64::from(heads.query) * (dim + 2) * 4;
        parts.checked_mul(problem.m).and_then(|rows| rows.checked_mul(row)).map(|scratch| (scratch, 0))
    };
    let (scratch, semaphores) = counted.ok_or_else(|| {
        Fault::invalid(format!("the parts of {} rows of {} overflow 64 bits", problem.m, problem.n))
    })?;
    Ok(Needs { scratch, semaphores })
}

/// The kernels of a launch in order.
///
/// # Errors
/// Heads the kernels do not hold; a problem beyond a grid.
pub(super) fn stages(problem: &Problem, scalars: &[u8], split: u32) -> Answer<Vec<Stage>> {
    let heads = Heads::of(scalars)?;
    let kv = size("K/V heads", u64::from(heads.kv), 65_535)?;
    let grid = [size("tiles", heads.tiles(problem), i32::MAX as u64)?, kv, split];
    if let Some((kernel, slabs)) = heads.packed() {
        let slab = PAGE * heads.dim * 2;
        // Queries of long heads, high and low, lie behind the ring.
        let queries = if heads.dim > 128 { 2 * GROUP_MAX * heads.dim * 2 } else { 0 };
        let shared = WAVES * slabs * slab + queries;
        return Ok(vec![Stage { kernel, grid, threads: PACKED_THREADS, shared }]);
    }
    let kernel = match heads.dim {
        0..=64 => 0,
        65..=128 => 1,
        _ => 2,
    };
    // Queries in f32; keys and values of a tile in f16.
    let shared = GROUP_MAX * heads.dim * 4 + 2 * POSITIONS * (heads.dim + PAD) * 2;
    let mut stages = vec![Stage { kernel, grid, threads: THREADS, shared }];
    if split > 1 {
        let rows = size("M", problem.m, i32::MAX as u64)?;
        let grid = [rows, size("heads", u64::from(heads.query), 65_535)?, 1];
        stages.push(Stage { kernel: 3, grid, threads: THREADS, shared: 0 });
    }
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Kind;

    fn scalars(n_head: u32, n_head_kv: u32, head_dim: u32) -> Vec<u8> {
        let words = [n_head, n_head_kv, head_dim, 512, 1.0f32.to_bits(), 0, 0, 1];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn problem(m: u64, batch: u64, k: u64) -> Problem {
        Problem { m, n: 4096, k, batch, aux: 0 }
    }

    #[test]
    fn positions_are_split_to_fill_the_device() {
        let entry = Entry { kind: Kind::Attention, format: None, regime: Regime::DECODE_ROW };
        let of = |m, k, scalars: &[u8]| split(entry, &problem(m, m, k), scalars, 132).unwrap();
        let packed = scalars(32, 8, 128);
        assert_eq!(
            [of(1, 256, &packed), of(1, 8192, &packed), of(4, 8192, &packed), of(16, 8192, &packed)],
            [2, 16, 4, 1]
        );
        let plain = scalars(32, 8, 80);
        assert_eq!([of(1, 256, &plain), of(1, 8192, &plain), of(64, 8192, &plain)], [2, 33, 3]);
        let prefill = Entry { regime: Regime::PREFILL_BATCH, ..entry };
        assert_eq!(split(prefill, &problem(1, 1, 8192), &packed, 132).unwrap(), 1);
        let most = |entry, k, fewest| split_most(entry, &problem(1, 1, k), fewest);
        assert_eq!([most(entry, 256, 2), most(entry, 8192, 16), most(entry, 65536, 40)], [2, 32, 64]);
        assert_eq!(most(prefill, 8192, 1), 1);
    }

    #[test]
    fn a_block_by_hand() {
        let stage = &stages(&problem(16, 16, 8192), &scalars(32, 8, 128), 2).unwrap()[0];
        assert_eq!((stage.kernel, stage.grid, stage.shared), (5, [16, 8, 2], 96 << 10));
        // Sixteen rows of one sequence, four a tile.
        let stage = &stages(&problem(16, 1, 8192), &scalars(32, 8, 256), 1).unwrap()[0];
        assert_eq!((stage.kernel, stage.grid, stage.shared), (6, [5, 8, 1], 144 << 10));
        let needs = needs(&problem(1, 1, 8192), &scalars(32, 8, 128), 16).unwrap();
        assert_eq!(needs, Needs { scratch: 8 * 16 * 16 * 130 * 4, semaphores: 32 });
        let plain = stages(&problem(4, 4, 8192), &scalars(32, 8, 80), 2).unwrap();
        assert_eq!((plain.len(), plain[0].grid, plain[1].grid), (2, [1, 8, 2], [4, 32, 1]));
        assert!(stages(&problem(1, 1, 64), &scalars(32, 1, 128), 1).is_err());
    }
}
