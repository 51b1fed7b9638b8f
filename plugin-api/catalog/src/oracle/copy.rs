//! `copy`: rows of the source, in order or chosen by index. Bits are kept.

use cajeta_abi::Problem;

use super::OracleError;
use super::operands::Operands;
use crate::op::{Op, attr};

pub(super) fn run(attrs: u64, problem: &Problem, operands: &mut Operands<'_>) -> Result<(), OracleError> {
    let width = problem.k as usize;
    let mut out = vec![f32::NAN; problem.m as usize * width];
    if attrs & attr::INDEXED != 0 {
        let source = operands.f32s(0, problem.n.saturating_mul(problem.k))?;
        for (row, index) in out.chunks_exact_mut(width).zip(operands.u32s(1, problem.m)?) {
            if let Some(from) = source.chunks_exact(width).nth(index as usize) {
                row.copy_from_slice(from);
            }
        }
    } else {
        if problem.m > problem.n {
            let what = format!("M = {} rows of a source of N = {}", problem.m, problem.n);
            return Err(OracleError::size(Op::Copy, what));
        }
        out = operands.f32s(0, problem.m.saturating_mul(problem.k))?;
    }
    operands.write_f32s(2, &out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, OracleBuf};

    #[test]
    fn in_order_and_by_index() {
        let x = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let index = [2u32, 3, 0];
        let problem = Problem { m: 3, n: 3, k: 2, ..Problem::default() };
        let mut out = [0f32; 6];
        let mut plain = [
            OracleBuf::Plain(bytemuck::cast_slice(&x)),
            OracleBuf::Absent,
            OracleBuf::Out(bytemuck::cast_slice_mut(&mut out)),
        ];
        oracle::run(Op::Copy, 0, &problem, &[], &mut plain).unwrap();
        assert_eq!(out, x);
        let mut indexed = [
            OracleBuf::Plain(bytemuck::cast_slice(&x)),
            OracleBuf::Plain(bytemuck::cast_slice(&index)),
            OracleBuf::Out(bytemuck::cast_slice_mut(&mut out)),
        ];
        oracle::run(Op::Copy, attr::INDEXED, &problem, &[], &mut indexed).unwrap();
        assert_eq!([out[0], out[1], out[4], out[5]], [5.0, 6.0, 1.0, 2.0]);
        assert!(out[2].is_nan() && out[3].is_nan());
    }

    #[test]
    fn an_index_needs_its_attribute() {
        let (x, index, mut out) = ([0; 8], [0; 4], [0; 8]);
        let problem = Problem { m: 1, n: 1, k: 2, ..Problem::default() };
        let mut buffers = [OracleBuf::Plain(&x), OracleBuf::Plain(&index), OracleBuf::Out(&mut out)];
        let error = oracle::run(Op::Copy, 0, &problem, &[], &mut buffers).unwrap_err();
        assert!(error.to_string().contains("operand index"), "{error}");
    }
}
