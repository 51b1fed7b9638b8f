//! Random numbers that a seed repeats (SplitMix64).

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of a seed and a name, so that each row has its own whatever
    /// other rows a plugin has.
    pub(crate) fn new(seed: u64, name: &str, case: u64) -> Random {
        let mut random = Random(seed ^ case.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        for byte in name.bytes() {
            random.0 ^= u64::from(byte);
            random.next();
        }
        random
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Below `bound`; 0 when that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Within `low ..= high`.
    pub(crate) fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        from.get(self.below(from.len() as u64) as usize).copied()
    }

    /// In `[0, 1)`.
    pub(crate) fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }

    pub(crate) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// Roughly normal with variance 1, within four deviations.
    pub(crate) fn normal(&mut self) -> f32 {
        let sum: f32 = (0..4).map(|_| self.unit()).sum();
        (sum - 2.0) * 3f32.sqrt()
    }

    /// `0 .. count` in random order.
    pub(crate) fn permutation(&mut self, count: usize) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count as u32).collect();
        for i in (1..count).rev() {
            order.swap(i, self.below(i as u64 + 1) as usize);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_name() {
        let draw = |name: &str| Random::new(7, name, 1).next();
        assert_eq!(draw("a"), draw("a"));
        assert_ne!(draw("a"), draw("b"));
        let mut random = Random::new(1, "", 0);
        let values: Vec<f32> = (0..1000).map(|_| random.normal()).collect();
        let variance = values.iter().map(|v| v * v).sum::<f32>() / 1000.0;
        assert!((0.8..1.2).contains(&variance), "{variance}");
        let mut order = random.permutation(9);
        order.sort_unstable();
        assert_eq!(order, (0..9).collect::<Vec<u32>>());
    }
}
