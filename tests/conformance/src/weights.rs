//! Weights of random valid blocks: every bit random but the scales, which stay finite.

use cajeta_catalog::quant::{Format, decode_row};
use half::{bf16, f16};

use crate::random::Random;

/// Rows of a weight in its file format. `None` for formats whose scales this
/// suite does not know, which no oracle decodes either.
pub(crate) fn blocks(format: Format, rows: u64, width: u64, random: &mut Random) -> Option<Vec<u8>> {
    let blocks = rows.checked_mul(width)?.checked_div(format.block_len() as u64)?;
    let mut bytes = vec![0u8; usize::try_from(blocks).ok()?.checked_mul(format.block_bytes())?];
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        fill(format, block, random)?;
    }
    Some(bytes)
}

/// Rows decoded, for norms and magnitudes.
pub(crate) fn decoded(format: Format, bytes: &[u8], width: u64) -> Vec<f32> {
    let row_bytes = format.row_bytes(width).unwrap_or(0).max(1) as usize;
    let mut values = vec![0f32; bytes.len() / row_bytes * width as usize];
    for (from, to) in bytes.chunks_exact(row_bytes).zip(values.chunks_exact_mut(width.max(1) as usize)) {
        if decode_row(format, from, to).is_err() {
            to.fill(f32::NAN);
        }
    }
    values
}

fn fill(format: Format, block: &mut [u8], random: &mut Random) -> Option<()> {
    for byte in block.iter_mut() {
        *byte = random.next() as u8;
    }
    let value = random.normal() * 0.5;
    // Size of the scale at which values come out near one, and where scales are.
    let (size, places): (f32, &[usize]) = match format {
        Format::F32 => return put(block, 0, &value.to_le_bytes()),
        Format::F16 => return put(block, 0, &f16::from_f32(value).to_le_bytes()),
        Format::BF16 => return put(block, 0, &bf16::from_f32(value).to_le_bytes()),
        Format::Q8_0 | Format::IQ4_NL => (0.01, &[0]),
        Format::Q4_0 | Format::Q5_0 => (0.06, &[0]),
        Format::Q4_1 | Format::Q5_1 => (0.06, &[0, 2]),
        Format::Q2_K => (0.02, &[80, 82]),
        Format::Q3_K => (0.006, &[108]),
        Format::Q4_K | Format::Q5_K => (0.001, &[0, 2]),
        Format::Q6_K => (2e-4, &[208]),
        Format::IQ4_XS => (4e-4, &[0]),
        Format::IQ2_XXS | Format::IQ2_XS | Format::IQ2_S | Format::IQ1_S => (0.01, &[0]),
        Format::IQ3_XXS | Format::IQ3_S => (0.01, &[0]),
        Format::TQ1_0 => (0.5, &[52]),
        Format::TQ2_0 => (0.5, &[64]),
        // A power of two around one, by its exponent byte.
        Format::MXFP4 => return put(block, 0, &[random.within(122, 128) as u8]),
        _ => return None,
    };
    for &place in places {
        let sign = if random.chance(20) { -1.0 } else { 1.0 };
        let scale = sign * size * random.between(0.3, 1.5);
        put(block, place, &f16::from_f32(scale).to_le_bytes())?;
    }
    Some(())
}

fn put(block: &mut [u8], place: usize, bytes: &[u8]) -> Option<()> {
    block.get_mut(place..place + bytes.len())?.copy_from_slice(bytes);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever decodes here can be tested, with finite weights of a sensible size.
    #[test]
    fn every_decodable_format_has_finite_weights() {
        let mut random = Random::new(5, "weights", 0);
        for &format in Format::ALL.iter().filter(|format| format.is_decodable()) {
            let bytes =
                blocks(format, 4, 512, &mut random).unwrap_or_else(|| panic!("{format} has no recipe"));
            let values = decoded(format, &bytes, 512);
            assert_eq!(values.len(), 2048);
            let norm = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / 2048.0;
            assert!(norm.is_finite() && (1e-3..30.0).contains(&norm), "{format}: mean square {norm}");
        }
    }
}
