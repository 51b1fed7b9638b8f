//! The operations, by number. A contract never changes under its number: a
//! changed meaning is a new op.

use cajeta_abi::OpId;

/// A catalog operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u32)]
pub enum Op {
    /// Gathers rows of a table by token id.
    Embed = 1,
    /// RMS norm of each row.
    Norm = 2,
    /// Rearranges plain f32 rows into an activation layout.
    Pack = 3,
    /// Activation rows times a weight, transposed: `out[m][n] = sum_k x[m][k] w[n][k]`.
    Matmul = 4,
    /// Element-wise sum.
    Add = 5,
    /// Rotates queries and keys and appends keys and values to the paged planes.
    RopeAppend = 6,
    /// Attention of variable-length queries over the paged planes.
    Attention = 7,
    /// Gated linear unit: `act(gate) * up`.
    Glu = 8,
    /// Copies rows, optionally chosen by index.
    Copy = 9,
    /// Index of the largest value of each row.
    Argmax = 10,
    /// Draws a token per row by temperature, top-k, top-p and min-p.
    Sample = 11,
    /// Moves the step state one token forward.
    Advance = 12,
    /// Rearranges weight tensors from file blocks into a weight layout.
    Relayout = 13,
}

impl Op {
    /// Every op, in number order.
    pub const ALL: [Op; 13] = [
        Op::Embed,
        Op::Norm,
        Op::Pack,
        Op::Matmul,
        Op::Add,
        Op::RopeAppend,
        Op::Attention,
        Op::Glu,
        Op::Copy,
        Op::Argmax,
        Op::Sample,
        Op::Advance,
        Op::Relayout,
    ];

    /// The number on the ABI.
    pub const fn id(self) -> OpId {
        OpId(self as u32)
    }

    /// The op behind a number, if this catalog has it.
    pub fn from_id(id: OpId) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.id() == id)
    }

    /// The name messages print.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Embed => "embed",
            Op::Norm => "norm",
            Op::Pack => "pack",
            Op::Matmul => "matmul",
            Op::Add => "add",
            Op::RopeAppend => "rope_append",
            Op::Attention => "attention",
            Op::Glu => "glu",
            Op::Copy => "copy",
            Op::Argmax => "argmax",
            Op::Sample => "sample",
            Op::Advance => "advance",
            Op::Relayout => "relayout",
        }
    }
}

/// Attributes an op instance may ask of a row, as bits of [`cajeta_abi::Step::attrs`].
/// A row admits an instance only if it declares every bit the instance carries,
/// and the same [`attr::EXACT`] bits: see [`attr::admits`].
pub mod attr {
    /// `Matmul`: a bias is added.
    pub const BIAS: u64 = 1 << 0;
    /// `Matmul`, `Attention`: results pass through `cap * tanh(x / cap)`.
    pub const SOFTCAP: u64 = 1 << 1;
    /// `Attention`: keys further back than the window are not seen.
    pub const WINDOW: u64 = 1 << 2;
    /// `Attention`: a sink logit per head joins the softmax.
    pub const SINKS: u64 = 1 << 3;
    /// `RopeAppend`: rotates pairs (2i, 2i+1) instead of halves (i, i + dim/2).
    pub const ROPE_PAIRS: u64 = 1 << 4;
    /// `RopeAppend`: per-frequency divisors are given.
    pub const ROPE_FACTORS: u64 = 1 << 5;
    /// `RopeAppend`: YaRN interpolation.
    pub const ROPE_YARN: u64 = 1 << 6;
    /// `Norm`: the weight is offset by a constant.
    pub const NORM_OFFSET: u64 = 1 << 7;
    /// `Glu`: the activation is GELU (tanh form) instead of SiLU.
    pub const GLU_GELU: u64 = 1 << 8;
    /// `Embed`: rows are scaled.
    pub const SCALE: u64 = 1 << 9;
    /// `Copy`: rows are chosen by index.
    pub const INDEXED: u64 = 1 << 10;

    /// Attributes that choose between two computations and that no scalar tells
    /// apart. A row serves exactly the instances that agree with it on these.
    pub const EXACT: u64 = ROPE_PAIRS | GLU_GELU;

    /// Whether a row declaring `row` serves an instance carrying `instance`.
    pub const fn admits(row: u64, instance: u64) -> bool {
        instance & !row == 0 && instance & EXACT == row & EXACT
    }

    /// Each bit with its name, for refusals.
    pub const NAMES: &[(u64, &str)] = &[
        (BIAS, "bias"),
        (SOFTCAP, "softcap"),
        (WINDOW, "window"),
        (SINKS, "sinks"),
        (ROPE_PAIRS, "rope-pairs"),
        (ROPE_FACTORS, "rope-factors"),
        (ROPE_YARN, "rope-yarn"),
        (NORM_OFFSET, "norm-offset"),
        (GLU_GELU, "glu-gelu"),
        (SCALE, "scale"),
        (INDEXED, "indexed"),
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_attributes_are_not_mere_permissions() {
        assert!(attr::admits(attr::BIAS | attr::SOFTCAP, attr::BIAS));
        assert!(!attr::admits(attr::BIAS, attr::SOFTCAP));
        assert!(!attr::admits(attr::ROPE_PAIRS, 0));
        assert!(attr::admits(attr::ROPE_PAIRS | attr::ROPE_YARN, attr::ROPE_PAIRS));
    }

    #[test]
    fn numbers_are_distinct_and_found_again() {
        for op in Op::ALL {
            assert_eq!(Op::from_id(op.id()), Some(op));
        }
        assert_eq!(Op::from_id(OpId(0)), None);
        let mut bits = 0;
        for (bit, name) in attr::NAMES {
            assert_eq!(bits & bit, 0, "{name} shares a bit");
            bits |= bit;
        }
    }
}
