//! Launch shapes of argmax and sample: how many blocks share a row, and what they leave for each other.

use cajeta_plugin_api::abi::Problem;
use cajeta_plugin_api::{Answer, Fault};

use super::shape::Needs;
use crate::registry::Kind;

/// Values a block of sample holds, and the most candidates it keeps.
const PART: u64 = 4096;
const CANDIDATES: u64 = 256;
/// Values worth a block of argmax, and most blocks of a launch of few rows.
const PIECE: u64 = 2048;
const BLOCKS: u64 = 256;

/// Blocks that share a row.
pub(super) fn parts(kind: Kind, problem: &Problem) -> u64 {
    match kind {
        Kind::Sample => problem.n.div_ceil(PART).max(1),
        _ => (problem.n / PIECE).min(BLOCKS / 4).min(BLOCKS / problem.m.max(1)).max(1),
    }
}

/// What the blocks of the rows leave for each other.
///
/// # Errors
/// More than 64 bits count.
pub(super) fn needs(kind: Kind, problem: &Problem) -> Answer<Needs> {
    let parts = parts(kind, problem);
    if parts == 1 {
        return Ok(Needs::default());
    }
    let times = |bytes: u64| problem.m.checked_mul(bytes);
    let counted = match kind {
        // Candidates of 8 bytes; a counter.
        Kind::Sample => parts.checked_mul(CANDIDATES * 8).and_then(times).zip(times(4)),
        // The best so far and a counter.
        _ => Some(0).zip(times(16)),
    };
    let (scratch, semaphores) = counted.ok_or_else(|| {
        Fault::invalid(format!("the candidates of {} rows of {} overflow 64 bits", problem.m, problem.n))
    })?;
    Ok(Needs { scratch, semaphores })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vocabulary_by_hand() {
        let problem = |m, n| Problem { m, n, ..Problem::default() };
        assert_eq!(parts(Kind::Argmax, &problem(1, 128_256)), 62);
        assert_eq!(parts(Kind::Argmax, &problem(16, 128_256)), 16);
        assert_eq!(parts(Kind::Argmax, &problem(512, 128_256)), 1);
        assert_eq!(parts(Kind::Sample, &problem(16, 128_256)), 32);
        let needs = |kind, m, n| needs(kind, &problem(m, n)).unwrap();
        assert_eq!(needs(Kind::Sample, 2, 5003), Needs { scratch: 2 * 2 * 256 * 8, semaphores: 8 });
        assert_eq!(needs(Kind::Sample, 2, 4096), Needs::default());
        assert_eq!(needs(Kind::Argmax, 2, 5003), Needs { scratch: 0, semaphores: 32 });
    }
}
