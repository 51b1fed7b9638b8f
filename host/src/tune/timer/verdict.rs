//! Which arm is faster, and whether the lead means anything.

use crate::record::ArmTiming;

/// A lead under this many percent is a tie.
pub const TIE_PERCENT: f64 = 3.0;

/// The outcome of a comparison.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Verdict {
    /// The arm with the fastest median; of equals the first.
    pub winner: usize,
    /// Percent the next one takes longer; `None` without a next one.
    pub lead_percent: Option<f64>,
    /// Whether the lead is under [`TIE_PERCENT`]: the faster serves, and the record says so.
    pub tie: bool,
}

impl Verdict {
    /// The outcome of these timings; `None` of none.
    pub fn of(timings: &[ArmTiming]) -> Option<Verdict> {
        let mut order: Vec<usize> = (0..timings.len()).collect();
        order.sort_by(|&a, &b| timings[a].median_ns.total_cmp(&timings[b].median_ns));
        let winner = *order.first()?;
        let fastest = timings[winner].median_ns;
        let lead =
            |&next: &usize| 100.0 * (timings[next].median_ns - fastest) / fastest.max(f64::MIN_POSITIVE);
        let lead_percent = order.get(1).map(lead);
        Some(Verdict { winner, lead_percent, tie: lead_percent.is_some_and(|lead| lead < TIE_PERCENT) })
    }
}

/// The middle value, of an even number the mean of the middle two; not a number of none.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.len() % 2, values.get(middle), middle.checked_sub(1).and_then(|low| values.get(low))) {
        (1, Some(&value), _) => value,
        (0, Some(&high), Some(&low)) => low + (high - low) / 2.0,
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(medians: &[f64]) -> Option<Verdict> {
        let timings: Vec<ArmTiming> =
            medians.iter().map(|&median_ns| ArmTiming { median_ns, ..ArmTiming::default() }).collect();
        Verdict::of(&timings)
    }

    #[test]
    fn the_faster_wins_and_a_small_lead_is_a_tie() {
        let clear = verdict(&[200.0, 100.0, 150.0]).expect("three");
        assert_eq!((clear.winner, clear.lead_percent, clear.tie), (1, Some(50.0), false));
        let tie = verdict(&[102.9, 100.0]).expect("two");
        assert!(tie.winner == 1 && tie.tie);
        assert!(!verdict(&[103.1, 100.0]).expect("two").tie);
        let alone = verdict(&[5.0]).expect("one");
        assert_eq!((alone.winner, alone.lead_percent, alone.tie), (0, None, false));
        assert_eq!(verdict(&[7.0, 7.0]).expect("equal").winner, 0);
        assert_eq!(verdict(&[]), None);
    }

    #[test]
    fn the_middle_is_the_middle() {
        assert_eq!(median(&mut [3.0, 100.0, 1.0]), 3.0);
        assert_eq!(median(&mut [4.0, 2.0]), 3.0);
        assert!(median(&mut []).is_nan());
    }
}
