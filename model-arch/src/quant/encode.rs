//! Encoding one row of values into any format that has a quantiser here.

use super::{blocks_of_32, k_ranges, k_signed, uneven};
use cajeta_catalog::quant::Format;
use half::{bf16, f16};

/// Why a row was not encoded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EncodeError {
    /// No quantiser for this format.
    #[error("no quantiser writes {format}")]
    NoQuantiser {
        /// The format asked for.
        format: Format,
    },
    /// The row or the buffer has the wrong length.
    #[error("encoding {values} values of {format}: expected whole blocks of {} and exactly their bytes, got {got} bytes", format.block_len())]
    Length {
        /// The format asked for.
        format: Format,
        /// Values given.
        values: usize,
        /// Bytes of room given.
        got: usize,
    },
    /// A value that the format cannot hold.
    #[error("encoding {format}: value {index} is {value}; expected a finite value of at most {cap}")]
    Value {
        /// The format asked for.
        format: Format,
        /// Where the value stands.
        index: usize,
        /// The value.
        value: f32,
        /// The largest magnitude the format takes.
        cap: f32,
    },
}

/// The formats [`encode_row`] writes.
pub const ENCODABLE: [Format; 16] = [
    Format::F32,
    Format::F16,
    Format::BF16,
    Format::Q8_0,
    Format::Q4_0,
    Format::Q4_1,
    Format::Q5_0,
    Format::Q5_1,
    Format::Q2_K,
    Format::Q3_K,
    Format::Q4_K,
    Format::Q5_K,
    Format::Q6_K,
    Format::IQ4_NL,
    Format::IQ4_XS,
    Format::MXFP4,
];

/// Encodes `values` as `format` into `bytes`.
///
/// # Errors
/// When the format has no quantiser, `values` is not whole blocks, `bytes` is not exactly
/// `format.row_bytes(values.len())` long, or a value is not finite or beyond the range of the F16
/// scales.
pub fn encode_row(format: Format, values: &[f32], bytes: &mut [u8]) -> Result<(), EncodeError> {
    if format.row_bytes(values.len() as u64) != Some(bytes.len() as u64) {
        return Err(EncodeError::Length { format, values: values.len(), got: bytes.len() });
    }
    let cap = match format {
        Format::F32 => f32::MAX,
        Format::BF16 => bf16::MAX.to_f32(),
        _ => f16::MAX.to_f32(),
    };
    // Written so that NaN counts as beyond.
    let beyond = |value: &f32| !matches!(value.abs().partial_cmp(&cap), Some(order) if order.is_le());
    if let Some(index) = values.iter().position(beyond) {
        return Err(EncodeError::Value { format, index, value: values[index], cap });
    }
    match format {
        Format::F32 => each(values, bytes, f32::to_le_bytes),
        Format::F16 => each(values, bytes, |value| f16::from_f32(value).to_le_bytes()),
        Format::BF16 => each(values, bytes, |value| bf16::from_f32(value).to_le_bytes()),
        Format::Q8_0 => blocks(values, bytes, blocks_of_32::encode_q8_0),
        Format::Q4_0 => blocks(values, bytes, blocks_of_32::encode_q4_0),
        Format::Q4_1 => blocks(values, bytes, blocks_of_32::encode_q4_1),
        Format::Q5_0 => blocks(values, bytes, blocks_of_32::encode_q5_0),
        Format::Q5_1 => blocks(values, bytes, blocks_of_32::encode_q5_1),
        Format::Q2_K => blocks(values, bytes, k_ranges::encode_q2_k),
        Format::Q3_K => blocks(values, bytes, k_signed::encode_q3_k),
        Format::Q4_K => blocks(values, bytes, k_ranges::encode_q4_k),
        Format::Q5_K => blocks(values, bytes, k_ranges::encode_q5_k),
        Format::Q6_K => blocks(values, bytes, k_signed::encode_q6_k),
        Format::IQ4_NL => blocks(values, bytes, uneven::encode_iq4_nl),
        Format::IQ4_XS => blocks(values, bytes, uneven::encode_iq4_xs),
        Format::MXFP4 => blocks(values, bytes, uneven::encode_mxfp4),
        _ => return Err(EncodeError::NoQuantiser { format }),
    }
    Ok(())
}

fn each<const N: usize>(values: &[f32], bytes: &mut [u8], encode: impl Fn(f32) -> [u8; N]) {
    for (value, bytes) in values.iter().zip(bytes.as_chunks_mut::<N>().0) {
        *bytes = encode(*value);
    }
}

fn blocks<const L: usize, const N: usize>(
    values: &[f32],
    bytes: &mut [u8],
    encode: fn(&[f32; L]) -> [u8; N],
) {
    for (values, bytes) in values.as_chunks::<L>().0.iter().zip(bytes.as_chunks_mut::<N>().0) {
        *bytes = encode(values);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_catalog::quant::{decode_row, iq4, mxfp4};
    use proptest::prelude::*;

    fn round_trip(format: Format, values: &[f32]) -> Vec<f32> {
        let mut bytes = vec![0; format.row_bytes(values.len() as u64).unwrap() as usize];
        encode_row(format, values, &mut bytes).unwrap();
        let mut decoded = vec![0.0; values.len()];
        decode_row(format, &bytes, &mut decoded).unwrap();
        decoded
    }

    /// The largest error, as a part of the block's largest magnitude, that rounding to nearest can
    /// make: half a step of the quants, plus what rounding the sub-block scales to their own bits
    /// adds, with room for the F16 scale.
    fn tolerance(format: Format) -> f32 {
        match format {
            Format::F32 => 0.0,
            Format::F16 => 0.000_5,
            Format::BF16 => 0.004,
            Format::Q8_0 => 0.005,
            // The extreme value stands at the wider end; one as large on the other side loses a step.
            Format::Q4_0 => 0.125 + 0.01,
            Format::Q5_0 => 0.063 + 0.005,
            // A step is a fifteenth of the range, which may be twice the largest magnitude.
            Format::Q4_1 => 0.07,
            Format::Q5_1 => 0.035,
            // The same, and a 63rd of the largest scale times 15 may be lost at the far end.
            Format::Q4_K => 0.07 + 0.02,
            // A whole step of 31: half of it is rounding, the rest are scale and minimum in six bits.
            Format::Q5_K => 0.065 + 0.005,
            // A third of the range, and scales of four bits.
            Format::Q2_K => 0.34 + 0.1,
            Format::Q3_K => 0.25 + 0.03,
            // A step of 32 and a half: an extreme on the shorter side loses one.
            Format::Q6_K => 0.031 + 0.02,
            // Half the widest gap of the table, or the difference of its ends.
            Format::IQ4_NL => 0.12,
            Format::IQ4_XS => 0.12 + 0.03,
            // The largest may be cut from 8 to 6.
            _ => 0.26,
        }
    }

    #[test]
    fn values_on_the_grid_survive_exactly() {
        let ramp = |n: usize, f: &dyn Fn(usize) -> f32| (0..n).map(f).collect::<Vec<_>>();
        let q8 = ramp(32, &|i| (i as f32 - 16.0) * 0.5 * if i == 0 { 127.0 / 16.0 } else { 1.0 });
        assert_eq!(round_trip(Format::Q8_0, &q8), q8);
        let q4 = ramp(32, &|i| (i % 16) as f32 * 0.25 - 2.0);
        assert_eq!(round_trip(Format::Q4_1, &q4), q4);
        let centred = ramp(32, &|i| (i % 16) as f32 * 0.25 - 2.0);
        assert_eq!(round_trip(Format::Q4_0, &centred), centred);
        let centred = ramp(32, &|i| i as f32 * -0.125 + 2.0);
        assert_eq!(round_trip(Format::Q5_0, &centred), centred);
        let q5 = ramp(32, &|i| i as f32 * 0.25 - 2.0);
        assert_eq!(round_trip(Format::Q5_1, &q5), q5);
        let iq4 = ramp(32, &|i| f32::from(iq4::LEVELS[i * 7 % 16]) * -0.5);
        assert_eq!(round_trip(Format::IQ4_NL, &iq4), iq4);
        let mx = ramp(32, &|i| f32::from(mxfp4::LEVELS[i * 5 % 16]) * 0.125);
        assert_eq!(round_trip(Format::MXFP4, &mx), mx);
        // Sub-block 0 has the scale -32, so that d is exactly a quarter.
        let q3 = ramp(256, &|i| 0.25 * (2.0 * (i / 16) as f32 - 32.0) * ((i * 3 % 8) as f32 - 4.0));
        assert_eq!(round_trip(Format::Q3_K, &q3), q3);
        let xs = ramp(256, &|i| 0.25 * ((i / 32 * 3) as f32 - 32.0) * f32::from(iq4::LEVELS[i * 7 % 16]));
        assert_eq!(round_trip(Format::IQ4_XS, &xs), xs);
        // The largest scale and minimum are 15 (Q2_K) and 63 (Q5_K), so that d and dmin are exact.
        let q2 = ramp(256, &|i| 0.5 * (i / 16) as f32 * (i % 4) as f32 - 0.25 * (i / 16) as f32);
        assert_eq!(round_trip(Format::Q2_K, &q2), q2);
        let k5 = ramp(256, &|i| 0.5 * (9 * (i / 32)) as f32 * (i % 32) as f32 - 2.0 * (9 * (i / 32)) as f32);
        assert_eq!(round_trip(Format::Q5_K, &k5), k5);
        let k4 = ramp(256, &|i| (i % 16) as f32 * 0.63 * 2.0 - 1.26 * 8.0);
        let error =
            round_trip(Format::Q4_K, &k4).iter().zip(&k4).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(error < 0.01, "{error}");
        let k6 = ramp(256, &|i| ((i * 7) % 64) as f32 * 0.5 - 16.0);
        let error =
            round_trip(Format::Q6_K, &k6).iter().zip(&k6).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(error <= 0.26, "{error}");
    }

    #[test]
    fn constant_and_zero_blocks_have_no_surprises() {
        for format in ENCODABLE {
            assert!(round_trip(format, &[0.0; 256]).iter().all(|&v| v == 0.0), "{format}");
            for constant in [3.0f32, -3.0, 1e-7, -1e-7] {
                let decoded = round_trip(format, &[constant; 256]);
                let bound = (tolerance(format) * constant.abs()).max(1e-7);
                assert!(
                    decoded.iter().all(|v| (v - constant).abs() <= bound),
                    "{format} {constant} {:?}",
                    decoded[0]
                );
            }
        }
    }

    #[test]
    fn what_cannot_be_encoded_is_refused() {
        let mut bytes = [0; 34];
        let refused = |format, values: &[f32], bytes: &mut [u8]| {
            encode_row(format, values, bytes).unwrap_err().to_string()
        };
        assert!(refused(Format::Q8_K, &[0.0; 256], &mut [0; 292]).contains("no quantiser writes Q8_K"));
        assert!(refused(Format::Q8_0, &[0.0; 33], &mut bytes).contains("33 values"));
        assert!(refused(Format::Q8_0, &[0.0; 32], &mut [0; 33]).contains("33 bytes"));
        assert!(refused(Format::F16, &[f32::NAN; 17], &mut bytes).contains("value 0 is NaN"));
        assert!(refused(Format::F16, &[7e4; 17], &mut bytes).contains("at most 65504"));
        assert!(encode_row(Format::BF16, &[7e4; 17], &mut bytes).is_ok());
    }

    proptest! {
        #[test]
        fn errors_stay_within_a_step(
            values in prop::collection::vec(-1f32..1.0, 256),
            magnitude in -10i32..10,
            pick in 0usize..ENCODABLE.len(),
        ) {
            let format = ENCODABLE[pick];
            let values: Vec<f32> = values.iter().map(|v| v * (magnitude as f32).exp2()).collect();
            let decoded = round_trip(format, &values);
            // Scales are shared by the whole 256-value block in the K formats.
            let largest = values.iter().fold(0f32, |largest, v| largest.max(v.abs()));
            for (value, decoded) in values.iter().zip(&decoded) {
                prop_assert!((value - decoded).abs() <= tolerance(format) * largest, "{} {} {}", format, value, decoded);
            }
        }
    }
}
