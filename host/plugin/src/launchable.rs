//! Rows whose launch shape is impossible: asked once, at the smallest problem a row's own gates admit.
//!
//! Geometry is pure and needs neither a driver nor a device. A row that refuses the question is left
//! alone (heads of an attention are in scalars nobody has yet); one that answers must answer with a shape
//! that some device could launch.

use std::path::Path;

use abi_stable::std_types::RSlice;
use cajeta_abi::{BackendV1, Code, DeviceFacts, ErrorBuf, Geometry, Problem, Row, SCALAR_BYTES_MAX, Subject};
use cajeta_catalog::op::Op;
use cajeta_catalog::scalars::scalar_bytes;

use crate::candidate::Refusal;
use crate::contradictions::smallest;
use crate::rows::broken;

/// Most threads of a block, on any device there is.
const BLOCK_THREADS_MAX: u64 = 1 << 16;

/// Asks the geometry of every row whose ops this host knows.
///
/// # Errors
/// Stage layout: a launch shape of nothing, of more threads than any block has, or split backwards.
pub(crate) fn check(backend: &BackendV1, rows: &[Row], path: &Path) -> Result<(), Refusal> {
    for (index, row) in rows.iter().enumerate() {
        let scalars: Option<usize> =
            row.steps.iter().map(|step| Op::from_id(step.op).map(scalar_bytes)).sum();
        let Some(scalars) = scalars.filter(|bytes| *bytes <= SCALAR_BYTES_MAX) else { continue };
        let least = |subject| smallest(row, subject).unwrap_or(0);
        let problem = Problem {
            m: least(Subject::M),
            n: least(Subject::N),
            k: least(Subject::K),
            batch: least(Subject::BATCH),
            aux: least(Subject::AUX),
        };
        let (mut geometry, mut error) = (Geometry::default(), ErrorBuf::new());
        let zeros = [0u8; SCALAR_BYTES_MAX];
        let scalars = RSlice::from_slice(zeros.get(..scalars).unwrap_or(&[]));
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let answer =
            (backend.geometry)(number, &DeviceFacts::NONE, &problem, scalars, &mut geometry, &mut error);
        if answer != Code::OK {
            continue;
        }
        if let Some(rule) = impossible(&geometry) {
            let Problem { m, n, k, .. } = problem;
            let row = format!("row {index} `{}`", row.name);
            return Err(broken(path, "rows", format!("{row}: its geometry at M {m} N {n} K {k} {rule}")));
        }
    }
    Ok(())
}

fn impossible(geometry: &Geometry) -> Option<String> {
    let Geometry { grid, block, split_min, split_max, .. } = *geometry;
    let threads = block.iter().try_fold(1u64, |threads, &side| threads.checked_mul(u64::from(side)));
    if grid.contains(&0) {
        return Some(format!("has no block: a grid of {grid:?}"));
    }
    if threads.is_none_or(|threads| threads == 0 || threads > BLOCK_THREADS_MAX) {
        return Some(format!("has a block of {block:?} threads; from 1 to {BLOCK_THREADS_MAX} launch"));
    }
    (split_min > split_max).then(|| format!("splits in at least {split_min} and at most {split_max} parts"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_of_nothing_of_too_much_and_backwards_are_impossible() {
        let good =
            Geometry { grid: [1; 3], block: [1024, 1, 1], split_min: 1, split_max: 1, ..Geometry::default() };
        assert_eq!(impossible(&good), None);
        for (bad, words) in [
            (Geometry { grid: [1, 0, 1], ..good }, "no block"),
            (Geometry { block: [0, 1, 1], ..good }, "[0, 1, 1] threads"),
            (Geometry { block: [u32::MAX; 3], ..good }, "threads"),
            (Geometry { split_min: 2, ..good }, "at least 2 and at most 1"),
        ] {
            let rule = impossible(&bad).expect(words);
            assert!(rule.contains(words), "{rule}");
        }
    }
}
