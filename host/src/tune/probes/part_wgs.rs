//! In how many parts a split attention is computed: `partWgs`, as a multiple of the fewest that its launch
//! shape names.
//!
//! Each multiple is an arm, as far as the row's own range goes. The multiple, not the number, holds for other
//! depths and numbers of sequences: the fewest parts are those that fill the device by count. A row that
//! does not split has nothing to settle.

use cajeta_abi::Geometry;

use crate::record::{Answered, Probe, Record};
use crate::tune::tuning::{ArmId, Keep, Question, Timed, Tuning};
use crate::tune::{TuneError, key};

/// Times an attention at numbers of parts.
pub trait Arms {
    /// Hash of the attention's code, if there is one.
    fn code(&self) -> Option<[u8; 32]>;

    /// Times each of some numbers of parts, in order.
    ///
    /// # Errors
    /// Whatever keeps them from being timed.
    fn time(&mut self, parts: &[u32]) -> Result<Timed, TuneError>;
}

/// The multiples of the fewest parts that are within a row's range: powers of two.
pub fn multiples(geometry: &Geometry) -> Vec<u32> {
    let (fewest, most) = (geometry.split_min.max(1), geometry.split_max.max(1));
    let powers = (0..u32::BITS).map(|bit| 1u32 << bit);
    powers.take_while(|times| *times == 1 || *times <= most / fewest).collect()
}

/// Settles the multiple. Nothing while timing is held, or when it cannot be timed.
///
/// # Errors
/// When the device is lost.
pub fn settle(tuning: &Tuning, geometry: &Geometry, arms: &mut dyn Arms) -> Result<Option<u32>, TuneError> {
    let (multiples, fewest) = (multiples(geometry), geometry.split_min.max(1));
    let parts: Vec<u32> = multiples.iter().map(|times| fewest * times).collect();
    let code = arms.code();
    let ids = multiples.iter().map(|times| ArmId { name: times.to_string(), code }).collect();
    let name = key::PART_WGS.to_owned();
    let question = Question { name: name.clone(), scope: key::PART_WGS, arms: ids, keep: Keep::Stored };
    let settled = tuning.settle(&question, &mut || arms.time(&parts))?;
    let chosen = multiples.get(settled.arm).copied();
    Record::from(Probe {
        probe: name,
        answer: chosen.map(|times| times.to_string()).unwrap_or_default(),
        answered: settled.answered,
        timings: settled.timings,
        launches: settled.launches,
        not_stored: settled.not_stored,
    })
    .emit();
    Ok(chosen.filter(|_| settled.answered != Answered::Held))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::tuning::tests::{timed, tuning};

    struct Fake(Vec<u32>);

    impl Arms for Fake {
        fn code(&self) -> Option<[u8; 32]> {
            Some([3; 32])
        }

        fn time(&mut self, parts: &[u32]) -> Result<Timed, TuneError> {
            self.0 = parts.to_vec();
            // Eight parts are best; every other number is as far off as it is from eight.
            let medians = parts.iter().map(|&parts| 10.0 + f64::from(parts.abs_diff(8)));
            Ok(timed(&medians.collect::<Vec<f64>>()))
        }
    }

    fn range(split_min: u32, split_max: u32) -> Geometry {
        Geometry { split_min, split_max, ..Geometry::default() }
    }

    #[test]
    fn the_rows_own_range_is_tried_and_the_best_remembered() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut arms = Fake(Vec::new());
        for launches in [100, 0] {
            let tuning = tuning(Some(folder.path()), None);
            assert_eq!(settle(&tuning, &range(2, 24), &mut arms).expect("settled"), Some(4));
            assert_eq!(tuning.spent().stored, launches);
            assert_eq!(tuning.store().recall("partWgs").map(|answer| answer.value), Some("4".into()));
        }
        assert_eq!(arms.0, [2, 4, 8, 16], "eight parts are four times the fewest");
    }

    #[test]
    fn a_row_that_does_not_split_has_nothing_to_settle() {
        let mut arms = Fake(Vec::new());
        assert_eq!(settle(&tuning(None, None), &range(1, 1), &mut arms).expect("settled"), Some(1));
        assert!(arms.0.is_empty());
        assert_eq!(multiples(&range(0, 0)), [1]);
        assert_eq!(multiples(&range(3, 5)), [1]);
        assert_eq!(multiples(&range(3, 12)), [1, 2, 4]);
    }
}
