//! Quantisers of the 32-value formats of even steps.

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

/// Q4_0: the value of largest magnitude becomes -8, so that the wider side of the range serves it.
pub(super) fn encode_q4_0(values: &[f32; 32]) -> [u8; 18] {
    let (d, quants) = centred(values, 8.0);
    let mut block = [0; 18];
    let (head, low) = block.split_at_mut(2);
    head.copy_from_slice(&d);
    put_low_bits(&quants, low);
    block
}

/// Q5_0: as Q4_0, with -16.
pub(super) fn encode_q5_0(values: &[f32; 32]) -> [u8; 22] {
    let (d, quants) = centred(values, 16.0);
    let mut block = [0; 22];
    block[..2].copy_from_slice(&d);
    block[2..6].copy_from_slice(&fifth_bits(&quants));
    put_low_bits(&quants, &mut block[6..]);
    block
}

/// Q4_1: the smallest value becomes 0 and the largest 15.
pub(super) fn encode_q4_1(values: &[f32; 32]) -> [u8; 20] {
    let (head, quants) = ranged(values, 15.0);
    let mut block = [0; 20];
    block[..4].copy_from_slice(&head);
    put_low_bits(&quants, &mut block[4..]);
    block
}

/// Q5_1: as Q4_1, with 31.
pub(super) fn encode_q5_1(values: &[f32; 32]) -> [u8; 24] {
    let (head, quants) = ranged(values, 31.0);
    let mut block = [0; 24];
    block[..4].copy_from_slice(&head);
    block[4..8].copy_from_slice(&fifth_bits(&quants));
    put_low_bits(&quants, &mut block[8..]);
    block
}

/// The value of largest magnitude, with its sign; 0 when there is none.
pub(super) fn extreme(values: &[f32]) -> f32 {
    values.iter().copied().fold(0f32, |a, b| if b.abs() > a.abs() { b } else { a })
}

/// The stored scale at which the extreme value is `-middle`, and quants in `0..2 * middle` around it.
fn centred(values: &[f32; 32], middle: f32) -> ([u8; 2], [u8; 32]) {
    let (d, per_step) = stored(extreme(values) / -middle);
    let quant = |value: f32| ((value * per_step).round() + middle).clamp(0.0, 2.0 * middle - 1.0) as u8;
    (d, values.map(quant))
}

/// The stored scale and minimum at which the values span `0..=top`, and their quants.
fn ranged(values: &[f32; 32], top: f32) -> ([u8; 4], [u8; 32]) {
    let smallest = values.iter().copied().fold(f32::INFINITY, f32::min);
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let minimum = f16::from_f32(smallest);
    let ([d0, d1], per_step) = stored((largest / top) - (smallest / top));
    let [m0, m1] = minimum.to_le_bytes();
    let quant = |value: f32| ((value - minimum.to_f32()) * per_step).round().clamp(0.0, top) as u8;
    ([d0, d1, m0, m1], values.map(quant))
}

/// The low four bits of all quants: value `j` and value `j + 16` share byte `j`.
pub(super) fn put_low_bits(quants: &[u8; 32], bytes: &mut [u8]) {
    let (low, high) = quants.split_at(16);
    for (byte, (low, high)) in bytes.iter_mut().zip(low.iter().zip(high)) {
        *byte = low & 0xf | high << 4;
    }
}

/// The fifth bits: that of value `i` is bit `i` of a little-endian word.
fn fifth_bits(quants: &[u8; 32]) -> [u8; 4] {
    let word = quants.iter().enumerate().fold(0u32, |word, (i, quant)| word | u32::from(quant >> 4 & 1) << i);
    word.to_le_bytes()
}
