//! Random weights in every format.
//!
//! Quantised blocks are drawn directly rather than quantised from numbers: uniform quants under
//! scales that give the wanted spread. Scales vary from block to block, so a kernel that took the
//! wrong one would be noticed.

use super::random::Random;
use crate::quant::Format;
use cajeta_catalog::quant::{iq4, k_scales, mxfp4, q3_k};
use half::{bf16, f16};

/// Appends `values` values of mean 0 and this standard deviation as `format`. `values` are whole blocks.
pub(super) fn matrix_part(
    format: Format,
    deviation: f32,
    random: &mut Random,
    values: usize,
    bytes: &mut Vec<u8>,
) {
    match format {
        Format::F16 => numbers(random, values, bytes, |value| f16::from_f32(deviation * value).to_le_bytes()),
        Format::BF16 => {
            numbers(random, values, bytes, |value| bf16::from_f32(deviation * value).to_le_bytes())
        }
        Format::Q8_0 => blocks(format, values, bytes, |block| q8_0(deviation, random, block)),
        Format::Q4_0 => blocks(format, values, bytes, |block| centred(16.0, deviation, random, block)),
        Format::Q5_0 => blocks(format, values, bytes, |block| centred(32.0, deviation, random, block)),
        Format::Q4_1 => blocks(format, values, bytes, |block| ranged(16.0, deviation, random, block)),
        Format::Q5_1 => blocks(format, values, bytes, |block| ranged(32.0, deviation, random, block)),
        Format::Q2_K => blocks(format, values, bytes, |block| q2_k(deviation, random, block)),
        Format::Q3_K => blocks(format, values, bytes, |block| q3_k(deviation, random, block)),
        Format::Q4_K => blocks(format, values, bytes, |block| k_ranged(16.0, deviation, random, block)),
        Format::Q5_K => blocks(format, values, bytes, |block| k_ranged(32.0, deviation, random, block)),
        Format::Q6_K => blocks(format, values, bytes, |block| q6_k(deviation, random, block)),
        Format::IQ4_NL => blocks(format, values, bytes, |block| iq4_nl(deviation, random, block)),
        Format::IQ4_XS => blocks(format, values, bytes, |block| iq4_xs(deviation, random, block)),
        Format::MXFP4 => blocks(format, values, bytes, |block| mxfp4(deviation, random, block)),
        // F32; recipes of formats that do not decode are refused before.
        _ => numbers(random, values, bytes, |value| (deviation * value).to_le_bytes()),
    }
}

/// Appends `values` plain numbers of mean 0 and deviation 1, as `encode` writes them.
pub(super) fn numbers<const N: usize>(
    random: &mut Random,
    values: usize,
    bytes: &mut Vec<u8>,
    encode: impl Fn(f32) -> [u8; N],
) {
    let end = bytes.len() + values * N;
    while bytes.len() < end {
        let [first, second] = random.pair();
        bytes.extend_from_slice(&encode(first));
        bytes.extend_from_slice(&encode(second));
    }
    bytes.truncate(end);
}

fn blocks(format: Format, values: usize, bytes: &mut Vec<u8>, mut make: impl FnMut(&mut [u8])) {
    let start = bytes.len();
    bytes.resize(start + values / format.block_len() * format.block_bytes(), 0);
    bytes[start..].chunks_exact_mut(format.block_bytes()).for_each(&mut make);
}

/// Scales vary by a quarter both ways.
fn varied(random: &mut Random, scale: f32) -> [u8; 2] {
    f16::from_f32(scale * random.between(0.75, 1.25)).to_le_bytes()
}

/// Standard deviation of a number uniform on `0..count`.
fn uniform_deviation(count: f32) -> f32 {
    ((count * count - 1.0) / 12.0).sqrt()
}

/// The same about zero when the numbers are `-count / 2..count / 2`, whose mean is -1/2.
fn centred_deviation(count: f32) -> f32 {
    ((count * count + 2.0) / 12.0).sqrt()
}

/// The same for places in a table.
fn levels_deviation(levels: &[i8; 16]) -> f32 {
    (levels.iter().map(|&level| f32::from(level).powi(2)).sum::<f32>() / 16.0).sqrt()
}

/// As [`varied`], either sign: where the quants' mean is not zero, that of the values shall be.
fn signed(random: &mut Random, scale: f32) -> [u8; 2] {
    let sign = if random.word() & 1 == 0 { 1.0 } else { -1.0 };
    varied(random, sign * scale)
}

fn q8_0(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    for quant in &mut block[2..] {
        // Quantisers never write -128, and kernels may count on that.
        *quant = if *quant == 0x80 { 0 } else { *quant };
    }
    block[..2].copy_from_slice(&varied(random, deviation / uniform_deviation(255.0)));
}

/// Q4_0 and Q5_0: a scale, then nothing but quants, of `count` values around their middle.
fn centred(count: f32, deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    block[..2].copy_from_slice(&signed(random, deviation / centred_deviation(count)));
}

/// Q4_1 and Q5_1: a scale and a minimum, then nothing but quants of `count` values.
fn ranged(count: f32, deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    let d = varied(random, deviation / uniform_deviation(count));
    // The middle of the quants becomes 0.
    let minimum = f16::from_f32(f16::from_le_bytes(d).to_f32() * (1.0 - count) / 2.0);
    block[..2].copy_from_slice(&d);
    block[2..4].copy_from_slice(&minimum.to_le_bytes());
}

/// Q4_K and Q5_K: two scales, packed sub-scales, then nothing but quants of `count` values.
fn k_ranged(count: f32, deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    let mut pairs = [(0, 0); k_scales::SUB_BLOCKS];
    let word = random.word().to_le_bytes();
    for (pair, byte) in pairs.iter_mut().zip(word) {
        // Scales from 32 to 61; a minimum near its scale puts the middle of the quants near 0.
        let scale = 32 + (byte >> 3) % 30;
        *pair = (scale, scale - 2 + (byte & 3) + (byte >> 2 & 1));
    }
    // On average a scale is 45.7.
    let d = varied(random, deviation / (45.7 * uniform_deviation(count)));
    let dmin = f16::from_f32(f16::from_le_bytes(d).to_f32() * (count - 1.0) / 2.0);
    block[..2].copy_from_slice(&d);
    block[2..4].copy_from_slice(&dmin.to_le_bytes());
    block[4..16].copy_from_slice(&k_scales::pack(&pairs));
}

fn q2_k(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    for packed in &mut block[..16] {
        // Scales from 8 to 14; the minimum is the scale, or one less or more in a quarter of them each.
        let scale = 8 + (*packed & 0x3f) % 7;
        let minimum = scale + [0, 1, 1, 2][usize::from(*packed >> 6)] - 1;
        *packed = scale | minimum << 4;
    }
    // The root of the mean square of the scales is 11.2.
    let d = varied(random, deviation / (11.2 * uniform_deviation(4.0)));
    let dmin = f16::from_f32(f16::from_le_bytes(d).to_f32() * 1.5);
    block[80..82].copy_from_slice(&d);
    block[82..].copy_from_slice(&dmin.to_le_bytes());
}

fn q3_k(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    let scales = six_bit_scales(random);
    block[96..108].copy_from_slice(&q3_k::pack_scales(&scales));
    block[108..].copy_from_slice(&varied(random, deviation / (SIX_BIT_SCALE * centred_deviation(8.0))));
}

fn q6_k(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    for scale in &mut block[192..208] {
        // Magnitudes from 64 to 127, either sign.
        let magnitude = (64 + (*scale & 63)).cast_signed();
        *scale = if *scale & 64 == 0 { magnitude } else { -magnitude }.cast_unsigned();
    }
    // On average a magnitude is 95.5.
    block[208..].copy_from_slice(&varied(random, deviation / (95.5 * uniform_deviation(64.0))));
}

fn iq4_nl(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    block[..2].copy_from_slice(&signed(random, deviation / levels_deviation(&iq4::LEVELS)));
}

fn iq4_xs(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    let scales = six_bit_scales(random);
    let d = varied(random, deviation / (SIX_BIT_SCALE * levels_deviation(&iq4::LEVELS)));
    block[..2].copy_from_slice(&d);
    block[2..8].copy_from_slice(&iq4::pack_scales(&scales));
}

/// The scale is one of the two powers of two around the wanted one, the upper one as often as makes the
/// mean square right.
fn mxfp4(deviation: f32, random: &mut Random, block: &mut [u8]) {
    random.fill(block);
    let wanted = deviation / levels_deviation(&mxfp4::LEVELS);
    // The exponent byte whose scale is the power of two below.
    let below = ((wanted.to_bits() >> 23) as u8).saturating_add(1).min(253);
    let often = ((wanted / mxfp4::scale(below)).powi(2) - 1.0) / 3.0;
    block[0] = if random.between(0.0, 1.0) < often { below + 1 } else { below };
}

/// Root of the mean square of [`six_bit_scales`].
const SIX_BIT_SCALE: f32 = 23.95;

/// Magnitudes from 16 to 31, either sign.
fn six_bit_scales<const S: usize>(random: &mut Random) -> [i8; S] {
    let mut bytes = [0; S];
    random.fill(&mut bytes);
    bytes.map(|byte| {
        let magnitude = (16 + (byte & 15)).cast_signed();
        if byte & 16 == 0 { magnitude } else { -magnitude }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::decode_row;

    #[test]
    fn every_format_has_the_spread_asked_for() {
        for &format in Format::ALL.iter().filter(|format| format.is_decodable()) {
            for row in [256f32, 14_336.0] {
                let deviation = row.sqrt().recip();
                let values = 256 * 200;
                let mut bytes = Vec::new();
                matrix_part(format, deviation, &mut Random::new(3, 1, 4), values, &mut bytes);
                let mut decoded = vec![0f32; values];
                decode_row(format, &bytes, &mut decoded).unwrap();
                let mean = decoded.iter().map(|&v| f64::from(v)).sum::<f64>() / values as f64;
                let square = decoded.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() / values as f64;
                let spread = square.sqrt() / f64::from(deviation);
                assert!((spread - 1.0).abs() < 0.06, "{format} {row}: {spread}");
                assert!(mean.abs() < 0.03 * f64::from(deviation), "{format} {row}: mean {mean}");
            }
        }
    }
}
