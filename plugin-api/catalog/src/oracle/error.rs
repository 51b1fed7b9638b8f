//! Why an oracle refused a call.

use crate::op::Op;
use crate::quant::DecodeError;

/// A call that breaks an op's contract. Each names the op and, where there is
/// one, the operand.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OracleError {
    /// The number of operands is not the contract's.
    OperandCount {
        /// The op asked for.
        op: Op,
        /// Operands in its contract.
        expected: usize,
        /// Operands given.
        got: usize,
    },
    /// An operand is missing, unexpected or of another kind.
    Kind {
        /// The op asked for.
        op: Op,
        /// The operand's name.
        operand: &'static str,
        /// What the contract wants there.
        expected: &'static str,
        /// What was given.
        got: &'static str,
    },
    /// A buffer is shorter than its operand.
    Length {
        /// The op asked for.
        op: Op,
        /// The operand's name.
        operand: &'static str,
        /// Bytes it takes.
        expected: u64,
        /// Bytes given.
        got: u64,
    },
    /// The sizes and scalars of the call do not fit together.
    Size {
        /// The op asked for.
        op: Op,
        /// What does not fit, as a clause.
        what: String,
    },
    /// An index points outside what it indexes.
    Index {
        /// The op asked for.
        op: Op,
        /// What is indexed.
        what: &'static str,
        /// The index.
        index: u64,
        /// The first index that does not exist.
        bound: u64,
    },
    /// The weight's bytes could not be decoded.
    Decode {
        /// The op asked for.
        op: Op,
        /// The decoder's reason.
        reason: DecodeError,
    },
    /// The op writes a plugin's own layout and has no oracle by itself.
    PluginOwned {
        /// The op asked for.
        op: Op,
    },
}

impl OracleError {
    pub(super) fn size(op: Op, what: impl Into<String>) -> OracleError {
        OracleError::Size { op, what: what.into() }
    }
}

impl std::fmt::Display for OracleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            OracleError::OperandCount { op, expected, got } => {
                write!(f, "{}: expected {expected} operands, got {got}", op.name())
            }
            OracleError::Kind { op, operand, expected, got } => {
                write!(f, "{}: operand {operand}: expected {expected}, got {got}", op.name())
            }
            OracleError::Length { op, operand, expected, got } => {
                write!(f, "{}: operand {operand}: expected {expected} bytes, got {got}", op.name())
            }
            OracleError::Size { op, what } => write!(f, "{}: {what}", op.name()),
            OracleError::Index { op, what, index, bound } => {
                write!(f, "{}: {what} {index} is out of range, expected less than {bound}", op.name())
            }
            OracleError::Decode { op, reason } => write!(f, "{}: {reason}", op.name()),
            OracleError::PluginOwned { op } => {
                write!(f, "{}: writes a plugin's own layout, expected the plugin to compute it", op.name())
            }
        }
    }
}

impl std::error::Error for OracleError {}
