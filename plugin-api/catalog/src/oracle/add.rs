//! `add`: the f32 sum, element by element.

use cajeta_abi::Problem;

use super::OracleError;
use super::operands::Operands;

pub(super) fn run(problem: &Problem, operands: &mut Operands<'_>) -> Result<(), OracleError> {
    let count = problem.m.saturating_mul(problem.k);
    let mut sum = operands.f32s(0, count)?;
    for (sum, b) in sum.iter_mut().zip(operands.f32s(1, count)?) {
        *sum += b;
    }
    operands.write_f32s(2, &sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;
    use crate::oracle::{self, OracleBuf};

    #[test]
    fn by_hand_and_surplus_untouched() {
        let a = bytemuck::cast_slice(&[1.0f32, -2.0]);
        let b = bytemuck::cast_slice(&[0.5f32, 2.0]);
        let mut out = [9.0f32; 3];
        let mut buffers =
            [OracleBuf::Plain(a), OracleBuf::Plain(b), OracleBuf::Out(bytemuck::cast_slice_mut(&mut out))];
        let problem = Problem { m: 2, k: 1, ..Problem::default() };
        oracle::run(Op::Add, 0, &problem, &[], &mut buffers).unwrap();
        let wider = Problem { m: 4, ..problem };
        let error = oracle::run(Op::Add, 0, &wider, &[], &mut buffers).unwrap_err();
        assert_eq!(error.to_string(), "add: operand a: expected 16 bytes, got 8");
        assert_eq!(out, [1.5, 0.0, 9.0]);
    }
}
