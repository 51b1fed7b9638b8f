//! The counter random numbers of `sample`: Philox 4x32 with ten rounds (Salmon
//! et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
//!
//! 32-bit multiplications only, so that every device draws the same number.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: u32 = 10;

/// The four words of a counter under a key.
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let product = |multiplier: u32, word: u32| {
            let product = u64::from(multiplier) * u64::from(word);
            ((product >> 32) as u32, product as u32)
        };
        let (high0, low0) = product(MULTIPLIERS[0], counter[0]);
        let (high1, low1) = product(MULTIPLIERS[1], counter[2]);
        counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// The draw number `counter` under `seed`: the top 24 bits of the first word of
/// `philox([counter, 0, 0, 0], [seed low, seed high])`, as a fraction. In
/// `[0, 1)`, exact in f32.
pub fn uniform(seed: u64, counter: u32) -> f32 {
    let [word, ..] = philox([counter, 0, 0, 0], [seed as u32, (seed >> 32) as u32]);
    (word >> 8) as f32 / (1u32 << 24) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers published with the generator.
    #[test]
    fn known_answers() {
        assert_eq!(philox([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox([0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344], [0xa409_3822, 0x299f_31d0]),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    #[test]
    fn draws_are_spread_over_the_unit_interval() {
        let draws: Vec<f32> = (0..4096).map(|counter| uniform(42, counter)).collect();
        assert!(draws.iter().all(|draw| (0.0..1.0).contains(draw)));
        let mean = draws.iter().sum::<f32>() / 4096.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert_ne!(uniform(42, 0), uniform(42 << 32, 0));
    }
}
