//! Rotary position: the angle of each frequency, and the rotation of one head.
//!
//! Frequency `i` of `rope_dim / 2` turns by `p * base^(-2i/rope_dim) / factor[i]`
//! at position `p`; that is the extrapolated angle. The interpolated angle is
//! `freq_scale` times it, and is what a plain rotation uses. YaRN mixes the two:
//! `ramp = 1 - clamp((i - low) / max(high - low, 0.001), 0, 1)`, times `ext_factor`,
//! is the share of the extrapolated angle, with `low = floor(c(beta_fast))`,
//! `high = ceil(c(beta_slow))` kept within `0 ..= rope_dim - 1`, and
//! `c(r) = rope_dim * ln(original_context / (2 pi r)) / (2 ln base)`. Sine and
//! cosine are then multiplied by `attn_factor`, which is the whole magnitude
//! correction: nothing is derived from `freq_scale` here.

use crate::scalars::RopeAppendScalars;

/// How much each frequency turns per position, and by what rotations are scaled.
#[derive(Clone, PartialEq, Debug)]
pub struct Frequencies {
    per_position: Vec<f64>,
    magnitude: f64,
}

impl Frequencies {
    /// The frequencies of a scalar block. `factors` are the per-frequency
    /// divisors, `yarn` whether the YaRN scalars count.
    pub fn new(scalars: &RopeAppendScalars, factors: Option<&[f32]>, yarn: bool) -> Frequencies {
        let dim = f64::from(scalars.rope_dim);
        let (base, scale) = (f64::from(scalars.base), f64::from(scalars.freq_scale));
        let (low, high) = ramp_bounds(scalars);
        let per_position = (0..scalars.rope_dim / 2)
            .map(|i| {
                let factor =
                    factors.and_then(|factors| factors.get(i as usize)).map_or(1.0, |&f| f64::from(f));
                let extrapolated = base.powf(-2.0 * f64::from(i) / dim) / factor;
                if !yarn {
                    return scale * extrapolated;
                }
                let along = ((f64::from(i) - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
                let share = (1.0 - along) * f64::from(scalars.ext_factor);
                scale * extrapolated * (1.0 - share) + extrapolated * share
            })
            .collect();
        let magnitude = if yarn { f64::from(scalars.attn_factor) } else { 1.0 };
        Frequencies { per_position, magnitude }
    }

    /// (cosine, sine) of each frequency at a position, magnitude included.
    pub fn at(&self, position: u32) -> Vec<(f64, f64)> {
        let turn = |&frequency: &f64| {
            let (sin, cos) = (f64::from(position) * frequency).sin_cos();
            (cos * self.magnitude, sin * self.magnitude)
        };
        self.per_position.iter().map(turn).collect()
    }
}

fn ramp_bounds(scalars: &RopeAppendScalars) -> (f64, f64) {
    let dim = f64::from(scalars.rope_dim);
    let context = f64::from(scalars.original_context);
    let index = |rotations: f32| {
        let wavelength = context / (2.0 * std::f64::consts::PI * f64::from(rotations));
        dim * wavelength.ln() / (2.0 * f64::from(scalars.base).ln())
    };
    let low = index(scalars.beta_fast).floor().max(0.0);
    let high = index(scalars.beta_slow).ceil().min(dim - 1.0);
    (low, high)
}

/// Rotates the start of one head in place: halves `(i, i + rope_dim/2)`, or
/// `pairs` `(2i, 2i + 1)`. What lies past the rotated part is kept.
pub fn rotate(head: &mut [f32], turns: &[(f64, f64)], pairs: bool) {
    let half = turns.len();
    for (i, &(cos, sin)) in turns.iter().enumerate() {
        let (a, b) = if pairs { (2 * i, 2 * i + 1) } else { (i, i + half) };
        let (Some(&x), Some(&y)) = (head.get(a), head.get(b)) else { return };
        let (x, y) = (f64::from(x), f64::from(y));
        head[a] = (x * cos - y * sin) as f32;
        head[b] = (x * sin + y * cos) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable;
    use proptest::prelude::*;

    fn scalars(rope_dim: u32) -> RopeAppendScalars {
        RopeAppendScalars {
            rope_dim,
            head_dim: rope_dim,
            base: 10000.0,
            freq_scale: 1.0,
            attn_factor: 1.0,
            ..RopeAppendScalars::zeroed()
        }
    }

    #[test]
    fn halves_and_pairs_by_hand() {
        // A quarter turn of the first frequency, none of the second.
        let turns = [(0.0, 1.0), (1.0, 0.0)];
        let mut halves = [1.0, 2.0, 3.0, 4.0, 5.0];
        rotate(&mut halves, &turns, false);
        assert_eq!(halves, [-3.0, 2.0, 1.0, 4.0, 5.0]);
        let mut pairs = [1.0, 2.0, 3.0, 4.0, 5.0];
        rotate(&mut pairs, &turns, true);
        assert_eq!(pairs, [-2.0, 1.0, 3.0, 4.0, 5.0]);
    }

    #[test]
    fn angles_by_hand() {
        // base^(-2/4) = 0.01; the factor halves it, freq_scale quarters all.
        let block = RopeAppendScalars { freq_scale: 0.25, ..scalars(4) };
        let turns = Frequencies::new(&block, Some(&[1.0, 2.0]), false).at(100);
        for ((cos, sin), angle) in turns.into_iter().zip([25.0f64, 0.125]) {
            assert!((cos - angle.cos()).abs() < 1e-12 && (sin - angle.sin()).abs() < 1e-12);
        }
    }

    #[test]
    fn yarn_mixes_between_its_bounds() {
        // c(32) = 64 ln(4096 / (64 pi)) / (2 ln 10000) = 10.47…, c(1) = 22.51…
        let block = RopeAppendScalars {
            freq_scale: 0.25,
            original_context: 4096,
            ext_factor: 1.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attn_factor: 1.5,
            ..scalars(64)
        };
        assert_eq!(ramp_bounds(&block), (10.0, 23.0));
        let yarn = Frequencies::new(&block, None, true);
        let plain = Frequencies::new(&scalars(64), None, false);
        let ratio = |i: usize| yarn.per_position[i] / plain.per_position[i];
        assert!((ratio(10) - 1.0).abs() < 1e-12, "fast frequencies are extrapolated");
        assert!((ratio(23) - 0.25).abs() < 1e-12, "slow frequencies are interpolated");
        let mixed = 0.25 * (3.0 / 13.0) + (10.0 / 13.0);
        assert!((ratio(13) - mixed).abs() < 1e-12);
        assert_eq!(yarn.at(0)[0], (1.5, 0.0));
    }

    proptest! {
        /// A rotation keeps lengths, and undoing it restores the head.
        #[test]
        fn rotations_keep_lengths(head in prop::collection::vec(-8f32..8.0, 16), position in 0u32..40_000, pairs: bool) {
            let turns = Frequencies::new(&scalars(16), None, false).at(position);
            let mut turned = head.clone();
            rotate(&mut turned, &turns, pairs);
            let length = |head: &[f32]| head.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>();
            prop_assert!((length(&head) - length(&turned)).abs() < 1e-4);
            let back: Vec<(f64, f64)> = turns.iter().map(|&(cos, sin)| (cos, -sin)).collect();
            rotate(&mut turned, &back, pairs);
            for (a, b) in head.iter().zip(&turned) {
                prop_assert!((a - b).abs() < 1e-5);
            }
        }
    }
}
