//! `embed`: row `m` of the answer is row `tokens[m]` of the table, times `scale`.

use cajeta_abi::Problem;

use super::OracleError;
use super::operands::{Operands, scalars};
use crate::op::{Op, attr};
use crate::quant::decode_row;
use crate::scalars::EmbedScalars;

pub(super) fn run(
    attrs: u64,
    problem: &Problem,
    block: &[u8],
    operands: &mut Operands<'_>,
) -> Result<(), OracleError> {
    let block: EmbedScalars = scalars(Op::Embed, block)?;
    let tokens = operands.u32s(0, problem.m)?;
    let (format, table) = operands.weight(1)?;
    let row_bytes = format.row_bytes(problem.k).unwrap_or(0) as usize;
    let width = problem.k as usize;
    let mut out = vec![f32::NAN; tokens.len() * width];
    for (row, &token) in out.chunks_exact_mut(width).zip(&tokens) {
        if u64::from(token) >= problem.n {
            continue;
        }
        let start = token as usize * row_bytes;
        let bytes = table.get(start..start + row_bytes).unwrap_or(&[]);
        decode_row(format, bytes, row).map_err(|reason| OracleError::Decode { op: Op::Embed, reason })?;
        if attrs & attr::SCALE != 0 {
            row.iter_mut().for_each(|value| *value *= block.scale);
        }
    }
    operands.write_f32s(2, &out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, OracleBuf};
    use crate::quant::Format;

    #[test]
    fn rows_by_token_and_nan_past_the_table() {
        let tokens: Vec<u8> = [1u32, 7, 0].iter().flat_map(|token| token.to_le_bytes()).collect();
        let table: Vec<u8> = [1.0f32, 2.0, -3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let block = EmbedScalars { scale: 2.0, reserved: 0 };
        let problem = Problem { m: 3, n: 2, k: 2, ..Problem::default() };
        let mut out = [0u8; 24];
        for (attrs, factor) in [(0, 1.0), (attr::SCALE, 2.0)] {
            let mut buffers =
                [OracleBuf::Plain(&tokens), OracleBuf::Weight(Format::F32, &table), OracleBuf::Out(&mut out)];
            oracle::run(Op::Embed, attrs, &problem, bytemuck::bytes_of(&block), &mut buffers).unwrap();
            let values: Vec<f32> = out.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect();
            assert_eq!(values[..2], [-3.0 * factor, 4.0 * factor]);
            assert!(values[2].is_nan() && values[3].is_nan());
            assert_eq!(values[4..], [factor, 2.0 * factor]);
        }
    }
}
