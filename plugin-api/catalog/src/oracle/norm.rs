//! `norm`: `x / sqrt(mean(x²) + eps) * (weight + offset)`, row by row.

use cajeta_abi::Problem;

use super::OracleError;
use super::operands::{Operands, scalars};
use crate::op::{Op, attr};
use crate::scalars::NormScalars;

pub(super) fn run(
    attrs: u64,
    problem: &Problem,
    block: &[u8],
    operands: &mut Operands<'_>,
) -> Result<(), OracleError> {
    let block: NormScalars = scalars(Op::Norm, block)?;
    let mut x = operands.f32s(0, problem.m.saturating_mul(problem.k))?;
    let weight = operands.f32s(1, problem.k)?;
    let offset = if attrs & attr::NORM_OFFSET != 0 { f64::from(block.offset) } else { 0.0 };
    for row in x.chunks_exact_mut(weight.len()) {
        let squares: f64 = row.iter().map(|&value| f64::from(value) * f64::from(value)).sum();
        let scale = (squares / weight.len() as f64 + f64::from(block.eps)).sqrt().recip();
        for (value, &weight) in row.iter_mut().zip(&weight) {
            *value = (f64::from(*value) * scale * (f64::from(weight) + offset)) as f32;
        }
    }
    operands.write_f32s(2, &x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, OracleBuf};

    #[test]
    fn by_hand() {
        let x = bytemuck::cast_slice(&[3.0f32, 4.0]);
        let weight = bytemuck::cast_slice(&[1.0f32, -0.5]);
        // Mean square 12.5, plus eps 3.5: divided by 4.
        let block = NormScalars { eps: 3.5, offset: 1.0 };
        let problem = Problem { m: 1, k: 2, ..Problem::default() };
        for (attrs, expected) in [(0, [0.75f32, -0.5]), (attr::NORM_OFFSET, [1.5, 0.5])] {
            let mut out = [0u8; 8];
            let mut buffers = [OracleBuf::Plain(x), OracleBuf::Plain(weight), OracleBuf::Out(&mut out)];
            oracle::run(Op::Norm, attrs, &problem, bytemuck::bytes_of(&block), &mut buffers).unwrap();
            assert_eq!(out, bytemuck::cast::<_, [u8; 8]>(expected));
        }
    }
}
