//! Random numbers by counter: any part of any tensor can be made on its own, in any order.

/// A stream of 64-bit words, each a strong mix of its key and its number.
pub(super) struct Random {
    state: u64,
}

/// An odd constant without pattern: steps of it visit every 64-bit state.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Random {
    /// The stream of part `part` of tensor number `tensor` under `seed`.
    pub(super) fn new(seed: u64, tensor: u64, part: u64) -> Self {
        let key = mix(seed.wrapping_add(STEP)) ^ tensor.wrapping_mul(STEP);
        Random { state: mix(mix(key).wrapping_add(part.wrapping_mul(STEP))) }
    }

    pub(super) fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Fills `bytes` with random ones.
    pub(super) fn fill(&mut self, bytes: &mut [u8]) {
        let (words, rest) = bytes.as_chunks_mut::<8>();
        for word in words {
            *word = self.word().to_le_bytes();
        }
        let last = self.word().to_le_bytes();
        rest.iter_mut().zip(last).for_each(|(byte, random)| *byte = random);
    }

    /// Two numbers of mean 0 and standard deviation 1, each a sum of two uniform ones: bell-shaped
    /// enough for weights, bounded by 2.45, and cheap.
    pub(super) fn pair(&mut self) -> [f32; 2] {
        let word = self.word();
        let uniform = |shift: u32| f32::from((word >> shift) as u16);
        // The difference of two numbers uniform on 0..65536 has the variance 65536^2 / 6.
        let scale = 6f32.sqrt() / 65_536.0;
        [(uniform(0) - uniform(16)) * scale, (uniform(32) - uniform(48)) * scale]
    }

    /// A number from `low` to `high`.
    pub(super) fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.word() >> 40) as f32 / 16_777_215.0)
    }
}

/// Spreads a change of any bit over all bits.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_promised_moments() {
        let mut random = Random::new(1, 2, 3);
        let numbers: Vec<f64> = (0..50_000).flat_map(|_| random.pair()).map(f64::from).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let variance = numbers.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert!((0..1000).all(|_| (3.0..=5.0).contains(&random.between(3.0, 5.0))));
    }

    #[test]
    fn seed_tensor_and_part_each_matter() {
        let first = |seed, tensor, part| Random::new(seed, tensor, part).word();
        let streams = [first(0, 0, 0), first(1, 0, 0), first(0, 1, 0), first(0, 0, 1), first(1, 1, 1)];
        for (i, a) in streams.iter().enumerate() {
            assert!(streams[i + 1..].iter().all(|b| a != b));
        }
        assert_eq!(first(7, 8, 9), first(7, 8, 9));
    }
}
