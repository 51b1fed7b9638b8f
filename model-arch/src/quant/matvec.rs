//! The reference mat-vec: weights decoded row by row, products summed in f64.

use cajeta_catalog::quant::{DecodeError, Format, decode_row};

/// Why a mat-vec was not computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MatvecError {
    /// A slice does not have the length that the shape asks for.
    #[error("mat-vec of {rows} x {k} {format}: expected {expected} {what}, got {got}")]
    Length {
        /// The weights' format.
        format: Format,
        /// Rows of the matrix.
        rows: usize,
        /// Values in a row.
        k: usize,
        /// Which slice.
        what: &'static str,
        /// The length it should have; `u64::MAX` where the shape has no size.
        expected: u64,
        /// The length it has.
        got: usize,
    },
    /// The format has no decoder.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// `out[r] = sum over i of weight[r][i] * x[i]` for a `rows` x `k` matrix stored row by row in
/// `weights`. Each weight is decoded to f32 as every backend sees it; products and sums are f64, in
/// order, so the result is exact to far below any kernel's own rounding.
///
/// # Errors
/// When a slice's length disagrees with the shape or the format has no decoder.
pub fn reference_matvec(
    format: Format,
    weights: &[u8],
    rows: usize,
    k: usize,
    x: &[f32],
    out: &mut [f64],
) -> Result<(), MatvecError> {
    let row_bytes = format.row_bytes(k as u64);
    let bytes = row_bytes.and_then(|bytes| bytes.checked_mul(rows as u64)).unwrap_or(u64::MAX);
    let slices = [
        ("weight bytes", bytes, weights.len()),
        ("inputs", k as u64, x.len()),
        ("outputs", rows as u64, out.len()),
    ];
    for (what, expected, got) in slices {
        if expected != got as u64 {
            return Err(MatvecError::Length { format, rows, k, what, expected, got });
        }
    }
    if k == 0 {
        out.fill(0.0);
        return Ok(());
    }
    let mut row = vec![0f32; k];
    // The lengths agree, so each row's bytes are exactly one chunk.
    let row_bytes = weights.len() / rows.max(1);
    for (bytes, out) in weights.chunks_exact(row_bytes.max(1)).zip(out) {
        decode_row(format, bytes, &mut row)?;
        *out = row.iter().zip(x).map(|(&weight, &input)| f64::from(weight) * f64::from(input)).sum();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::encode::{ENCODABLE, encode_row};

    #[test]
    fn two_rows_by_hand() {
        let mut weights = vec![0; 2 * 34];
        encode_row(Format::Q8_0, &[127.0; 32], &mut weights[..34]).unwrap();
        let ramp: Vec<f32> = (0..32).map(|i| if i == 31 { 127.0 } else { i as f32 }).collect();
        encode_row(Format::Q8_0, &ramp, &mut weights[34..]).unwrap();
        let x: Vec<f32> = (0..32).map(|i| if i % 2 == 0 { 0.5 } else { -1.0 }).collect();
        let mut out = [0.0; 2];
        reference_matvec(Format::Q8_0, &weights, 2, 32, &x, &mut out).unwrap();
        // Evens 0..=30 sum to 240; odds 1..=29 sum to 225, and 127 stands at 31.
        assert_eq!(out, [127.0 * 16.0 * (0.5 - 1.0), 0.5 * 240.0 - 225.0 - 127.0]);
    }

    #[test]
    fn every_format_that_is_written_is_multiplied() {
        // -4 to 3 in each sixteen; every format holds it to within a sixth.
        let row: Vec<f32> = (0..256).map(|i| ((i * 5) % 8) as f32 - 4.0).collect();
        let x: Vec<f32> = row.iter().map(|value| value / 64.0).collect();
        let exact: f64 =
            row.iter().zip(&x).map(|(&weight, &input)| f64::from(weight) * f64::from(input)).sum();
        assert_eq!(exact, 22.0);
        for format in ENCODABLE {
            let row_bytes = format.row_bytes(256).unwrap() as usize;
            let mut weights = vec![0; 2 * row_bytes];
            encode_row(format, &row, &mut weights[row_bytes..]).unwrap();
            let mut out = [9.0; 2];
            reference_matvec(format, &weights, 2, 256, &x, &mut out).unwrap();
            assert_eq!(out[0], 0.0, "{format}");
            assert!((out[1] - exact).abs() < exact / 6.0, "{format}: {} for {exact}", out[1]);
        }
    }

    #[test]
    fn wrong_lengths_are_named() {
        let refused = |weights: &[u8], x: &[f32], out: &mut [f64]| {
            reference_matvec(Format::F32, weights, 2, 3, x, out).unwrap_err().to_string()
        };
        assert!(refused(&[0; 20], &[0.0; 3], &mut [0.0; 2]).contains("expected 24 weight bytes, got 20"));
        assert!(refused(&[0; 24], &[0.0; 2], &mut [0.0; 2]).contains("expected 3 inputs, got 2"));
        assert!(refused(&[0; 24], &[0.0; 3], &mut [0.0; 3]).contains("expected 2 outputs, got 3"));
        assert!(reference_matvec(Format::Q8_0, &[], 1, 7, &[0.0; 7], &mut [0.0]).is_err());
        let unknown = reference_matvec(Format::Q8_K, &[0; 292], 1, 256, &[0.0; 256], &mut [0.0]).unwrap_err();
        assert!(unknown.to_string().contains("Q8_K"), "{unknown}");
        assert!(reference_matvec(Format::F32, &[], 0, 3, &[0.0; 3], &mut []).is_ok());
    }
}
