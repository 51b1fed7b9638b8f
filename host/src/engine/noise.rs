//! Fills the K/V planes with noise: a cache of any depth in the time of an upload, for measuring.
//!
//! Every value is an f16 drawn from a standard normal, as a real cache's are near one; zeros would
//! not do, because devices run faster on them. All planes are cut from one pool of drawn values at
//! offsets that differ, so no two sequences hold the same.

use half::f16;

use super::error::EngineError;
use super::runner::Runner;
use crate::kv::KvPool;
use cajeta_model_arch::plan::Half;
use cajeta_plugin_host::{BufferSpan, Queue};

/// Values drawn; twice what one upload takes.
const POOL: usize = 1 << 22;
/// Values of one upload: 4 MiB.
const PIECE: usize = 1 << 21;
/// Offsets into the pool advance by this odd number of values, so they repeat after all are used.
const STRIDE: usize = 1_000_003;

impl Runner {
    /// Overwrites every block of the cache. Only lengths say which positions are in use, so a slot is
    /// filled to a depth by reserving it.
    ///
    /// # Errors
    /// When the device fails.
    pub fn fill_cache_with_noise(&mut self, seed: u64) -> Result<(), EngineError> {
        fill_planes(&mut self.queue, &self.kv, self.plan.kv.len() as u32, seed, u64::MAX)
    }
}

/// Overwrites the first `most` bytes of each plane.
pub(super) fn fill_planes(
    queue: &mut Queue,
    kv: &KvPool,
    layers: u32,
    seed: u64,
    most: u64,
) -> Result<(), EngineError> {
    let values = usize::try_from(most.div_ceil(2)).unwrap_or(usize::MAX);
    // A small fill needs no more than a few values to draw from.
    let pool = normal_values(POOL.min(values.saturating_add(PIECE)), seed);
    let room = pool.len() - PIECE.min(pool.len());
    let pool: &[u8] = bytemuck::cast_slice(&pool);
    let mut offset = 0;
    for plane in planes(kv, layers) {
        let (mut done, filled) = (0, plane.len().min(most));
        while done < filled {
            let bytes = (filled - done).min(2 * PIECE as u64);
            let from = 2 * offset;
            queue.upload(&plane.part(done, bytes)?, &pool[from..from + bytes as usize])?;
            done += bytes;
            offset = (offset + STRIDE) % room.max(1);
        }
    }
    Ok(())
}

fn planes(kv: &KvPool, layers: u32) -> Vec<BufferSpan> {
    let of = |layer| [Half::K, Half::V].map(|half| kv.plane(layer, half).cloned());
    (0..layers).flat_map(of).flatten().collect()
}

/// Overwrites a span with f32 values within one of zero, the same ones every few megabytes.
pub(super) fn fill_with_floats(queue: &mut Queue, span: &BufferSpan) -> Result<(), EngineError> {
    let mut state = 0;
    let mut value = || (split_mix(&mut state) >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
    let values = span.len().div_ceil(4).min(PIECE as u64);
    let piece: Vec<u8> = (0..values).flat_map(|_| value().to_le_bytes()).collect();
    let mut done = 0;
    while done < span.len() {
        let bytes = (span.len() - done).min(piece.len() as u64);
        queue.upload(&span.part(done, bytes)?, &piece[..bytes as usize])?;
        done += bytes;
    }
    Ok(())
}

/// Draws values from a standard normal, two from each pair of uniforms.
fn normal_values(count: usize, seed: u64) -> Vec<f16> {
    let mut state = seed;
    // 53 bits, never zero.
    let mut uniform = move || ((split_mix(&mut state) >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
    let mut values = Vec::with_capacity(count + 1);
    while values.len() < count {
        let radius = (-2.0 * uniform().ln()).sqrt();
        let (sin, cos) = (uniform() * std::f64::consts::TAU).sin_cos();
        values.extend([f16::from_f64(radius * cos), f16::from_f64(radius * sin)]);
    }
    values.truncate(count);
    values
}

/// The next of a sequence of 64-bit values that pass for random.
pub(super) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut value = *state;
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_normal_and_finite() {
        let values = normal_values(100_001, 7);
        let (mut sum, mut squares) = (0.0, 0.0);
        for value in &values {
            assert!(value.is_finite());
            sum += value.to_f64();
            squares += value.to_f64() * value.to_f64();
        }
        let n = values.len() as f64;
        assert!((sum / n).abs() < 0.02 && (squares / n - 1.0).abs() < 0.02, "{sum} {squares}");
        assert_ne!(values[..8], normal_values(8, 8)[..]);
    }
}
