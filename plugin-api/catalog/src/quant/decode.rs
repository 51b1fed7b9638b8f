//! Decoding one row of any decodable format, with its lengths checked.

use super::Format;

/// Why a row was not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The format is known by name and size but nothing here reads its blocks.
    NotDecodable {
        /// The format asked for.
        format: Format,
    },
    /// The number of values is not a whole number of blocks.
    PartialBlock {
        /// The format asked for.
        format: Format,
        /// Values asked for.
        values: usize,
    },
    /// The bytes given are not what that many values take.
    Length {
        /// The format asked for.
        format: Format,
        /// Values asked for.
        values: usize,
        /// Bytes that many values take.
        expected: u64,
        /// Bytes given.
        got: usize,
    },
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::NotDecodable { format } => {
                write!(f, "format {format} cannot be decoded: this build has no decoder for it")
            }
            DecodeError::PartialBlock { format, values } => write!(
                f,
                "decoding {values} values of {format}: expected a multiple of {}, its block length",
                format.block_len()
            ),
            DecodeError::Length { format, values, expected, got } => {
                write!(f, "decoding {values} values of {format}: expected {expected} bytes, got {got}")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// Decodes `out.len()` values of `format` from `bytes` into `f32`, with the arithmetic GGML's own
/// scalar dequantisation uses (every product and sum rounded to `f32`, nothing fused).
///
/// # Errors
/// When the format has no decoder, `out` is not whole blocks, or `bytes` is not exactly
/// `format.row_bytes(out.len())` long.
pub fn decode_row(format: Format, bytes: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
    let decode = format.decoder().ok_or(DecodeError::NotDecodable { format })?;
    let values = out.len();
    let expected = format.row_bytes(values as u64).ok_or(DecodeError::PartialBlock { format, values })?;
    if bytes.len() as u64 != expected {
        return Err(DecodeError::Length { format, values, expected, got: bytes.len() });
    }
    decode(bytes, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refusals_name_the_format_and_both_lengths() {
        let mut out = [0.0; 32];
        let short = decode_row(Format::Q8_0, &[0; 33], &mut out).unwrap_err();
        assert_eq!(short.to_string(), "decoding 32 values of Q8_0: expected 34 bytes, got 33");
        let partial = decode_row(Format::Q4_K, &[0; 18], &mut out).unwrap_err();
        assert!(partial.to_string().contains("multiple of 256"), "{partial}");
        let unknown = decode_row(Format::Q8_1, &[0; 36], &mut out).unwrap_err();
        assert!(unknown.to_string().contains("Q8_1"), "{unknown}");
    }

    proptest! {
        /// Blocks are independent: decoding a row is decoding each block alone.
        #[test]
        fn a_row_is_its_blocks(seed in prop::collection::vec(any::<u8>(), 420), pick in 0usize..16) {
            let decodable: Vec<_> = Format::ALL.iter().copied().filter(|f| f.is_decodable()).collect();
            let format = decodable[pick % decodable.len()];
            let (len, size) = (format.block_len(), format.block_bytes());
            let mut row = vec![0.0; 2 * len];
            decode_row(format, &seed[..2 * size], &mut row).unwrap();
            for block in 0..2 {
                let mut alone = vec![0.0; len];
                decode_row(format, &seed[block * size..][..size], &mut alone).unwrap();
                for (a, b) in alone.iter().zip(&row[block * len..]) {
                    prop_assert_eq!(a.to_bits(), b.to_bits());
                }
            }
        }
    }
}
