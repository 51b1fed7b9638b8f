//! `glu`: `act(gate) * up`, with SiLU, or GELU in its tanh form.

use cajeta_abi::Problem;

use super::OracleError;
use super::operands::Operands;
use crate::op::attr;

pub(super) fn run(attrs: u64, problem: &Problem, operands: &mut Operands<'_>) -> Result<(), OracleError> {
    let count = problem.m.saturating_mul(problem.k);
    let act = if attrs & attr::GLU_GELU != 0 { gelu } else { silu };
    let mut out = operands.f32s(0, count)?;
    for (out, up) in out.iter_mut().zip(operands.f32s(1, count)?) {
        *out = (act(f64::from(*out)) * f64::from(up)) as f32;
    }
    operands.write_f32s(2, &out)
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn gelu(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;
    use crate::oracle::{self, OracleBuf};

    fn glu(attrs: u64, gate: f32, up: f32) -> f32 {
        let (gate, up) = (gate.to_le_bytes(), up.to_le_bytes());
        let mut out = [0; 4];
        let mut buffers = [OracleBuf::Plain(&gate), OracleBuf::Plain(&up), OracleBuf::Out(&mut out)];
        let problem = Problem { m: 1, k: 1, ..Problem::default() };
        oracle::run(Op::Glu, attrs, &problem, &[0; 8], &mut buffers).unwrap();
        f32::from_le_bytes(out)
    }

    #[test]
    fn known_points() {
        assert_eq!(glu(0, 0.0, 3.0), 0.0);
        // silu(1) = 0.731058578…, gelu(1) = 0.841191990… (tanh form).
        assert!((glu(0, 1.0, 2.0) - 1.462_117_2).abs() < 1e-6);
        assert!((glu(attr::GLU_GELU, 1.0, 2.0) - 1.682_384).abs() < 1e-6);
        // Far out both are the ramp, without overflow.
        assert_eq!(glu(0, 1e4, 1.0), 1e4);
        assert_eq!(glu(attr::GLU_GELU, -1e4, 1.0).abs(), 0.0);
    }
}
