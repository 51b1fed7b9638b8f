//! What is in the memory that is timed: nothing that is not a number, nothing denormal.
//!
//! Floats are within one of zero. Blocks of any format, and layouts nobody looks into, are bytes from
//! 0x20 to 0x3F: whichever of them is a scale, as f16, bf16, f32 or an exponent, it is an ordinary
//! positive number, and the quants vary.

/// A small generator; the same bytes on every run.
#[derive(Debug)]
pub(in crate::tune) struct Random(u64);

impl Random {
    pub(in crate::tune) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Bytes of f32 values within one of zero, and not next to it.
    pub(in crate::tune) fn floats(&mut self, bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes + 4);
        while out.len() < bytes {
            let word = self.next();
            let size = 0.125 + (word >> 40) as f32 / (1u32 << 24) as f32 * 0.875;
            out.extend_from_slice(&(if word & 1 == 0 { size } else { -size }).to_le_bytes());
        }
        out.truncate(bytes);
        out
    }

    /// Bytes from 0x20 to 0x3F.
    pub(in crate::tune) fn blocks(&mut self, bytes: usize) -> Vec<u8> {
        const VARY: u64 = 0x1F1F_1F1F_1F1F_1F1F;
        const BASE: u64 = 0x2020_2020_2020_2020;
        let mut out = Vec::with_capacity(bytes + 8);
        while out.len() < bytes {
            out.extend_from_slice(&((self.next() & VARY) | BASE).to_le_bytes());
        }
        out.truncate(bytes);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_catalog::quant::{Format, decode_row};

    #[test]
    fn every_format_decodes_to_ordinary_numbers() {
        let mut random = Random::new(1);
        for &format in Format::ALL.iter().filter(|format| format.is_decodable()) {
            let bytes = format.row_bytes(2560).expect("whole blocks") as usize;
            let row = if format == Format::F32 { random.floats(bytes) } else { random.blocks(bytes) };
            let mut values = vec![0f32; 2560];
            decode_row(format, &row, &mut values).expect("decodes");
            assert!(values.iter().all(|value| value.is_normal() || *value == 0.0), "{format}");
            assert!(values.iter().any(|value| *value != values[0]), "{format} varies");
        }
    }
}
