//! Quantisers of the formats whose quants are places in a table: IQ4_NL, IQ4_XS and MXFP4.

use super::blocks_of_32::{extreme, put_low_bits, stored};
use cajeta_catalog::quant::{iq4, mxfp4};
use half::f16;

/// IQ4_NL: the better of the two scales that put the value of largest magnitude at an end of the table.
pub(super) fn encode_iq4_nl(values: &[f32; 32]) -> [u8; 18] {
    let (d, _) = stored(end_step(values));
    let mut block = [0; 18];
    block[..2].copy_from_slice(&d);
    let quants = nearest(values, f16::from_le_bytes(d).to_f32(), &iq4::LEVELS);
    put_low_bits(&quants, &mut block[2..]);
    block
}

/// IQ4_XS: each sub-block's scale as in IQ4_NL, rounded to six bits so that the one of largest
/// magnitude becomes -32; the quants are chosen for the rounded ones.
pub(super) fn encode_iq4_xs(values: &[f32; 256]) -> [u8; 136] {
    let (sub_blocks, _) = values.as_chunks::<32>();
    let wanted: [f32; 8] = std::array::from_fn(|s| end_step(&sub_blocks[s]));
    let (d, per_scale) = stored(extreme(&wanted) / -32.0);
    let scales = wanted.map(|scale| (scale * per_scale).round().clamp(-32.0, 31.0) as i8);
    let mut block = [0; 136];
    block[..2].copy_from_slice(&d);
    block[2..8].copy_from_slice(&iq4::pack_scales(&scales));
    let places = block[8..].as_chunks_mut::<16>().0;
    for ((values, bytes), scale) in sub_blocks.iter().zip(places).zip(scales) {
        let step = f16::from_le_bytes(d).to_f32() * f32::from(scale);
        put_low_bits(&nearest(values, step, &iq4::LEVELS), bytes);
    }
    block
}

/// MXFP4: the better of the power of two at which the largest magnitude is 4 to 8 (beyond 6 it is cut)
/// and the next.
pub(super) fn encode_mxfp4(values: &[f32; 32]) -> [u8; 17] {
    let largest = extreme(values).abs();
    // The exponent field is the power of two below, 127 more; two less brings it to 4.
    let exponent = ((largest.to_bits() >> 23) as u8).saturating_sub(2);
    let error = |exponent: &u8| squared_error(values, mxfp4::scale(*exponent), &mxfp4::LEVELS);
    let exponents = [exponent, exponent.saturating_add(1).min(254)];
    let best = if error(&exponents[1]) < error(&exponents[0]) { exponents[1] } else { exponents[0] };
    let mut block = [best; 17];
    put_low_bits(&nearest(values, mxfp4::scale(best), &mxfp4::LEVELS), &mut block[1..]);
    block
}

/// The step at which the value of largest magnitude stands at the end of [`iq4::LEVELS`] that serves
/// all values better.
fn end_step(values: &[f32; 32]) -> f32 {
    let extreme = extreme(values);
    let [first, .., last] = iq4::LEVELS.map(f32::from);
    let (down, up) = (extreme / first, extreme / last);
    let error = |step: f32| squared_error(values, step, &iq4::LEVELS);
    if error(up) < error(down) { up } else { down }
}

/// What the values lose at `step`.
fn squared_error(values: &[f32; 32], step: f32, levels: &[i8; 16]) -> f32 {
    let quants = nearest(values, step, levels);
    let lost = |(value, quant): (&f32, u8)| value - step * f32::from(levels[usize::from(quant)]);
    values.iter().zip(quants).map(|pair| lost(pair).powi(2)).sum()
}

/// The place of the level nearest to each value, the first of several equally near.
fn nearest(values: &[f32; 32], step: f32, levels: &[i8; 16]) -> [u8; 32] {
    values.map(|value| {
        let distance = |place: usize| (value - step * f32::from(levels[place])).abs();
        let closer = |best: usize, place: usize| if distance(place) < distance(best) { place } else { best };
        (1..levels.len()).fold(0, closer) as u8
    })
}
