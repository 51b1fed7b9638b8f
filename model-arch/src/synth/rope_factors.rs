//! The per-dimension rope frequency factors of the Llama 3.1 kind.

use super::shape::RopeFactors;
use std::f64::consts::TAU;

/// One factor per pair of values; the frequency of pair `i` is `base^(-2i/dim)` divided by its factor.
pub(super) fn rope_factors(factors: RopeFactors, base: f32, dim: u32) -> Vec<f32> {
    let RopeFactors { factor, low, high, original_ctx } = factors;
    let (factor, low, high) = (f64::from(factor), f64::from(low), f64::from(high));
    let original = f64::from(original_ctx);
    let pair = |i: u32| {
        let frequency = f64::from(base).powf(-2.0 * f64::from(i) / f64::from(dim));
        let turns = original * frequency / TAU;
        if turns > high {
            1.0
        } else if turns < low {
            factor
        } else {
            // How far from the stretched end, 0 to 1; the blend is of frequencies.
            let kept = (turns - low) / (high - low);
            1.0 / ((1.0 - kept) / factor + kept)
        }
    };
    (0..dim / 2).map(|i| pair(i) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn high_frequencies_are_kept_low_ones_divided_and_the_ramp_joins_them() {
        let factors = RopeFactors { factor: 8.0, low: 1.0, high: 4.0, original_ctx: 8192 };
        let values = rope_factors(factors, 500_000.0, 128);
        assert_eq!((values.len(), values[0], values[63]), (64, 1.0, 8.0));
        assert!(values.is_sorted());
        // 8192 / 4 = 2048 is the longest kept wavelength and 8192 the shortest divided one:
        // 2 pi 500000^(i / 64) passes them between pairs 28 and 29, and 34 and 35.
        assert_eq!((values[28], values[35]), (1.0, 8.0));
        assert!(values[29] > 1.0 && values[34] < 8.0);
    }
}
