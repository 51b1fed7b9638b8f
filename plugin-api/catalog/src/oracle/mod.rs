//! What each op computes: the definition every backend is held against.
//!
//! Straightforward and deterministic. Sums are taken in f64 and rounded once to
//! f32 (to f16 where keys and values enter the cache); a row of the answer does
//! not depend on the other rows. Buffers are bytes in the catalog's own layouts:
//! plain little-endian elements, file blocks of a weight format, `KV_F16` planes.
//!
//! Rules common to all ops:
//!
//! - A buffer may be longer than its operand; the surplus is neither read nor
//!   written. A shorter one is an error that names the operand.
//! - An attribute that is not asked for changes nothing, whatever the scalars say.
//! - An optional operand is given exactly when its attribute is asked for.
//!
//! [`Op::Pack`] and [`Op::Relayout`] write layouts that belong to a plugin, so
//! they have no oracle of their own: what they wrote is judged by the results
//! of the rows that read it.

pub mod error;
pub mod size;
mod operands;
mod embed;
mod norm;
pub mod matmul;
mod add;
pub mod rope;
mod plane;
mod rope_append;
mod attention;
mod glu;
mod copy;
pub mod argmax;
pub mod philox;
pub mod sample;
mod advance;
pub mod shapes;
pub mod compose;

use cajeta_abi::Problem;

use crate::op::Op;
use crate::quant::Format;
use operands::Operands;

pub use compose::Composition;
pub use error::OracleError;
pub use size::operand_bytes;

/// One operand's buffer.
pub enum OracleBuf<'a> {
    /// An optional operand this instance does not have.
    Absent,
    /// Elements of the operand's plain type, read only.
    Plain(&'a [u8]),
    /// Rows of a weight in a file format, read only.
    Weight(Format, &'a [u8]),
    /// Memory the op writes, or reads and writes.
    Out(&'a mut [u8]),
}

impl OracleBuf<'_> {
    fn reborrow(&mut self) -> OracleBuf<'_> {
        match self {
            OracleBuf::Absent => OracleBuf::Absent,
            OracleBuf::Plain(bytes) => OracleBuf::Plain(bytes),
            OracleBuf::Weight(format, bytes) => OracleBuf::Weight(*format, bytes),
            OracleBuf::Out(bytes) => OracleBuf::Out(bytes),
        }
    }
}

/// Computes one op.
///
/// `attrs` are the bits of [`crate::op::attr`] asked for, `scalars` this op's
/// own block, `operands` one buffer for each of [`crate::contract::operands`].
///
/// # Errors
/// A wrong number of operands, a buffer of the wrong kind or too short, a size
/// of zero, sizes that contradict the scalars, an index outside its plane or
/// table. Nothing is promised about outputs after an error.
pub fn run(
    op: Op,
    attrs: u64,
    problem: &Problem,
    scalars: &[u8],
    operands: &mut [OracleBuf<'_>],
) -> Result<(), OracleError> {
    let mut operands = Operands::check(op, attrs, problem, scalars, operands)?;
    match op {
        Op::Embed => embed::run(attrs, problem, scalars, &mut operands),
        Op::Norm => norm::run(attrs, problem, scalars, &mut operands),
        Op::Matmul => matmul::run(attrs, problem, scalars, &mut operands),
        Op::Add => add::run(problem, &mut operands),
        Op::RopeAppend => rope_append::run(attrs, problem, scalars, &mut operands),
        Op::Attention => attention::run(attrs, problem, scalars, &mut operands),
        Op::Glu => glu::run(attrs, problem, &mut operands),
        Op::Copy => copy::run(attrs, problem, &mut operands),
        Op::Argmax => argmax::run(problem, &mut operands),
        Op::Sample => sample::run(problem, &mut operands),
        Op::Advance => advance::run(problem, scalars, &mut operands),
        Op::Pack | Op::Relayout => Err(OracleError::PluginOwned { op }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;
    use proptest::prelude::*;

    fn problem() -> impl Strategy<Value = Problem> {
        let letter = || prop_oneof![0u64..5, Just(32), Just(u64::MAX), Just(1 << 62)];
        (letter(), letter(), letter(), letter(), letter()).prop_map(|(m, n, k, batch, aux)| Problem {
            m,
            n,
            k,
            batch,
            aux,
        })
    }

    proptest! {
        /// Nothing a caller passes makes an oracle panic.
        #[test]
        fn any_call_returns(
            pick in 0usize..13,
            attrs in any::<u64>(),
            problem in problem(),
            scalars in prop::collection::vec(prop_oneof![0u8..3, any::<u8>()], 0..64),
            lengths in prop::collection::vec(0usize..600, 9),
            kinds in prop::collection::vec(0u8..4, 9),
            fill in any::<u8>(),
        ) {
            let op = Op::ALL[pick];
            let mut memory: Vec<Vec<u8>> = lengths.iter().map(|&len| vec![fill; len]).collect();
            let mut buffers: Vec<OracleBuf<'_>> = memory
                .iter_mut()
                .zip(&kinds)
                .zip(contract::operands(op))
                .map(|((bytes, kind), operand)| match kind {
                    0 => OracleBuf::Absent,
                    1 => OracleBuf::Weight(Format::Q8_0, bytes),
                    _ if operand.access == cajeta_abi::Access::READ => OracleBuf::Plain(bytes),
                    _ => OracleBuf::Out(bytes),
                })
                .collect();
            let _ = run(op, attrs, &problem, &scalars, &mut buffers);
        }
    }

    #[test]
    fn plugin_owned_ops_are_refused_by_name() {
        let (x, mut out) = ([0; 4], [0; 4]);
        let problem = Problem { m: 1, k: 1, ..Problem::default() };
        let mut buffers = [OracleBuf::Plain(&x), OracleBuf::Out(&mut out)];
        let error = run(Op::Pack, 0, &problem, &[], &mut buffers).unwrap_err();
        assert!(error.to_string().starts_with("pack"), "{error}");
    }
}
