//! `matmul`: `out[m][n] = sum_k x[m][k] * weight[n][k]`, then bias, then softcap.

use cajeta_abi::Problem;

use super::OracleError;
use super::operands::{Operands, scalars};
use crate::op::{Op, attr};
use crate::quant::decode_row;
use crate::scalars::MatmulScalars;

pub(super) fn run(
    attrs: u64,
    problem: &Problem,
    block: &[u8],
    operands: &mut Operands<'_>,
) -> Result<(), OracleError> {
    let block: MatmulScalars = scalars(Op::Matmul, block)?;
    let (width, outputs) = (problem.k as usize, problem.n as usize);
    let x = operands.f32s(0, problem.m.saturating_mul(problem.k))?;
    let x: Vec<f64> = x.into_iter().map(f64::from).collect();
    let bias = operands.optional_f32s(2, problem.n)?;
    let (format, weight) = operands.weight(1)?;
    let row_bytes = format.row_bytes(problem.k).unwrap_or(0) as usize;
    let softcap = (attrs & attr::SOFTCAP != 0).then_some(f64::from(block.softcap));

    let mut row = vec![0f32; width];
    let mut out = vec![0f32; problem.m as usize * outputs];
    for output in 0..outputs {
        let bytes = weight.get(output * row_bytes..(output + 1) * row_bytes).unwrap_or(&[]);
        decode_row(format, bytes, &mut row)
            .map_err(|reason| OracleError::Decode { op: Op::Matmul, reason })?;
        let offset = bias.as_ref().and_then(|bias| bias.get(output)).map_or(0.0, |&bias| f64::from(bias));
        for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(outputs)) {
            out[output] = cap(dot(x, &row) + offset, softcap) as f32;
        }
    }
    operands.write_f32s(3, &out)
}

/// `sum_k x[k] * weight[k]` in f64, in eight interleaved partial sums: the order
/// is fixed, and a compiler may keep them in vector registers.
pub fn dot(x: &[f64], weight: &[f32]) -> f64 {
    const LANES: usize = 8;
    let (x, x_rest) = x.as_chunks::<LANES>();
    let (weight, weight_rest) = weight.as_chunks::<LANES>();
    let mut sums = [0f64; LANES];
    for (x, weight) in x.iter().zip(weight) {
        for ((sum, x), weight) in sums.iter_mut().zip(x).zip(weight) {
            *sum += x * f64::from(*weight);
        }
    }
    let rest: f64 = x_rest.iter().zip(weight_rest).map(|(x, weight)| x * f64::from(*weight)).sum();
    sums.iter().sum::<f64>() + rest
}

/// `cap * tanh(x / cap)`; `x` itself without a cap.
pub fn cap(x: f64, cap: Option<f64>) -> f64 {
    match cap {
        Some(cap) if cap != 0.0 => cap * (x / cap).tanh(),
        _ => x,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, OracleBuf};
    use crate::quant::Format;
    use proptest::prelude::*;

    fn product(x: &[f32], format: Format, weight: &[u8], problem: Problem, bias: Option<&[f32]>) -> Vec<f32> {
        let block = MatmulScalars { softcap: 2.0, reserved: 0 };
        let mut out = vec![0f32; (problem.m * problem.n) as usize];
        let mut buffers = [
            OracleBuf::Plain(bytemuck::cast_slice(x)),
            OracleBuf::Weight(format, weight),
            bias.map_or(OracleBuf::Absent, |bias| OracleBuf::Plain(bytemuck::cast_slice(bias))),
            OracleBuf::Out(bytemuck::cast_slice_mut(&mut out)),
        ];
        let attrs = if bias.is_some() { attr::BIAS | attr::SOFTCAP } else { 0 };
        oracle::run(Op::Matmul, attrs, &problem, bytemuck::bytes_of(&block), &mut buffers).unwrap();
        out
    }

    #[test]
    fn by_hand() {
        let weight = bytemuck::cast_slice(&[1.0f32, 2.0, 0.5, -1.0, 0.0, 4.0]);
        let x = [1.0, 1.0, 1.0, 2.0, 0.0, -2.0];
        let problem = Problem { m: 2, n: 2, k: 3, ..Problem::default() };
        assert_eq!(product(&x, Format::F32, weight, problem, None), [3.5, 3.0, 1.0, -10.0]);
        let capped = product(&x, Format::F32, weight, problem, Some(&[-3.5, 0.0]));
        assert_eq!(capped[0], 0.0);
        assert_eq!(capped[1], (2.0 * 1.5f64.tanh()) as f32);
    }

    #[test]
    fn a_block_format_is_decoded() {
        // One Q8_0 block: d = 0.5, all quants 2: every weight is 1.
        let mut block = vec![0x00, 0x38];
        block.extend([2u8; 32]);
        let x: Vec<f32> = (0..32).map(|i| i as f32).collect();
        let problem = Problem { m: 1, n: 1, k: 32, ..Problem::default() };
        assert_eq!(product(&x, Format::Q8_0, &block, problem, None), [496.0]);
    }

    proptest! {
        /// A row's answer does not depend on the rows beside it.
        #[test]
        fn rows_are_independent(x in prop::collection::vec(-4f32..4.0, 3 * 19), w in prop::collection::vec(-4f32..4.0, 5 * 19)) {
            let weight: &[u8] = bytemuck::cast_slice(&w);
            let problem = Problem { m: 3, n: 5, k: 19, ..Problem::default() };
            let all = product(&x, Format::F32, weight, problem, None);
            for (x, row) in x.chunks(19).zip(all.chunks(5)) {
                let alone = product(x, Format::F32, weight, Problem { m: 1, ..problem }, None);
                prop_assert_eq!(&alone[..], row);
            }
        }
    }
}
