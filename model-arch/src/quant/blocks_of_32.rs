//! Quantisers of the 32-value formats.

use half::f16;

/// Rounds `scale` as the block will store it, and answers the stored bytes and the factor that takes
/// values to quants (0 where the stored scale is 0, so that every quant becomes 0).
pub(super) fn stored(scale: f32) -> ([u8; 2], f32) {
    let stored = f16::from_f32(scale);
    let scale = stored.to_f32();
    (stored.to_le_bytes(), if scale == 0.0 { 0.0 } else { scale.recip() })
}

/// Q8_0: the largest magnitude becomes 127.
pub(super) fn encode_q8_0(values: &[f32; 32]) -> [u8; 34] {
    let largest = values.iter().fold(0f32, |largest, value| largest.max(value.abs()));
    let (d, per_step) = stored(largest / 127.0);
    let mut block = [0; 34];
    let (head, quants) = block.split_at_mut(2);
    head.copy_from_slice(&d);
    for (quant, value) in quants.iter_mut().zip(values) {
        // `as` saturates, which matters when the stored scale was rounded down.
        *quant = ((value * per_step).round() as i8).cast_unsigned();
    }
    block
}

/// Q4_1: the smallest value becomes 0 and the largest 15.
pub(super) fn encode_q4_1(values: &[f32; 32]) -> [u8; 20] {
    let smallest = values.iter().copied().fold(f32::INFINITY, f32::min);
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let minimum = f16::from_f32(smallest);
    let (d, per_step) = stored((largest / 15.0) - (smallest / 15.0));
    let mut block = [0; 20];
    let (head, quants) = block.split_at_mut(4);
    head[..2].copy_from_slice(&d);
    head[2..].copy_from_slice(&minimum.to_le_bytes());
    let (low, high) = values.split_at(16);
    let quantise = |value: f32| ((value - minimum.to_f32()) * per_step).round().clamp(0.0, 15.0) as u8;
    for (quant, (low, high)) in quants.iter_mut().zip(low.iter().zip(high)) {
        *quant = quantise(*low) | quantise(*high) << 4;
    }
    block
}
