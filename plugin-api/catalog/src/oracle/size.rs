//! How many bytes each operand of a launch takes.

use cajeta_abi::Problem;

use super::OracleError;
use crate::contract;
use crate::op::Op;
use crate::quant::Format;
use crate::scalars::{self, AdvanceScalars, AttentionScalars, RopeAppendScalars};
use crate::state::{SampleParams, StepLayout};

/// Bytes operand `operand` of `op` takes in the catalog's own layouts.
///
/// `format` is the weight's format where the operand is a weight with one.
/// `None` when the problem does not say: a K or V plane is any whole number of
/// blocks, and the outputs of `pack` and `relayout` are the plugin's to size.
/// For an optional operand, the bytes it takes when present.
///
/// # Errors
/// A size of zero, an overflow, a width that is not whole blocks, scalars that
/// are missing or contradict the problem, no such operand.
pub fn operand_bytes(
    op: Op,
    problem: &Problem,
    scalars: &[u8],
    format: Option<Format>,
    operand: usize,
) -> Result<Option<u64>, OracleError> {
    let sizes = Sizes { op, problem: *problem };
    let Some(spec) = contract::operands(op).get(operand) else {
        return Err(OracleError::size(op, format!("has no operand {operand}")));
    };
    let (m, n, k) = (sizes.m()?, problem.n, problem.k);
    let bytes = match (op, spec.name) {
        (Op::Embed, "tokens") => sizes.words(m, 1)?,
        (Op::Embed, "table") => sizes.weight(format, sizes.n()?, sizes.k()?)?,
        (Op::Embed, "out") => sizes.words(m, sizes.k()?)?,

        (Op::Norm, "weight") => sizes.words(sizes.k()?, 1)?,
        (Op::Pack, "out") => return Ok(None),
        (Op::Copy, "x") => sizes.words(sizes.n()?, sizes.k()?)?,
        (Op::Copy, "index") => sizes.words(m, 1)?,
        (Op::Norm | Op::Pack | Op::Add | Op::Glu | Op::Copy, _) => sizes.words(m, sizes.k()?)?,

        (Op::Matmul, "x") => sizes.words(m, sizes.k()?)?,
        (Op::Matmul, "weight") => sizes.weight(format, sizes.n()?, sizes.k()?)?,
        (Op::Matmul, "bias") => sizes.words(sizes.n()?, 1)?,
        (Op::Matmul, _) => sizes.words(m, sizes.n()?)?,

        (Op::RopeAppend, name) => {
            let heads: RopeAppendScalars = sizes.scalars(scalars)?;
            sizes.heads(n, k, heads.n_head, heads.n_head_kv, heads.head_dim)?;
            if !heads.rope_dim.is_multiple_of(2) || heads.rope_dim > heads.head_dim {
                let what = format!(
                    "rope_dim {} of heads of {} is not even and within",
                    heads.rope_dim, heads.head_dim
                );
                return Err(OracleError::size(op, what));
            }
            match name {
                "q" => sizes.words(m, n)?,
                "k" | "v" => sizes.words(m, k)?,
                "positions" | "row_seq" => sizes.words(m, 1)?,
                "block_tables" => sizes.words(sizes.batch()?, sizes.tables(heads.max_blocks)?)?,
                "factors" => sizes.words(u64::from(heads.rope_dim / 2), 1)?,
                _ => return Ok(None),
            }
        }
        (Op::Attention, name) => {
            let heads: AttentionScalars = sizes.scalars(scalars)?;
            let width = u64::from(heads.n_head_kv) * u64::from(heads.head_dim);
            sizes.heads(n, width, heads.n_head, heads.n_head_kv, heads.head_dim)?;
            match name {
                "q" | "out" => sizes.words(m, n)?,
                "seq_start" => sizes.words(sizes.batch()?.saturating_add(1), 1)?,
                "kv_len" => sizes.words(sizes.batch()?, 1)?,
                "block_tables" => sizes.words(sizes.batch()?, sizes.tables(heads.max_blocks)?)?,
                "sinks" => sizes.words(u64::from(heads.n_head), 1)?,
                _ => return Ok(None),
            }
        }
        (Op::Argmax | Op::Sample, "logits") => sizes.words(m, sizes.n()?)?,
        (Op::Sample, "params") => sizes.product(m, size_of::<SampleParams>() as u64)?,
        (Op::Argmax | Op::Sample, _) => sizes.words(m, 1)?,

        (Op::Advance, _) => {
            let dims: AdvanceScalars = sizes.scalars(scalars)?;
            if m > u64::from(dims.max_seqs.min(dims.max_rows)) {
                let what = format!("{m} sequences in a state of {} rows, {}", dims.max_rows, dims.max_seqs);
                return Err(OracleError::size(op, what));
            }
            state_layout(&dims).total_bytes()
        }

        (Op::Relayout, "source") => sizes.weight(format, sizes.n()?, sizes.k()?)?,
        (Op::Relayout, "source2") => sizes.weight(format, m, sizes.k()?)?,
        (Op::Relayout, "source3") => sizes.weight(format, problem.aux, sizes.k()?)?,
        (Op::Relayout, _) => return Ok(None),
        (Op::Embed, _) => return Err(OracleError::size(op, format!("has no operand {operand}"))),
    };
    Ok(Some(bytes))
}

/// The step state an `advance` launch moves.
pub fn state_layout(scalars: &AdvanceScalars) -> StepLayout {
    StepLayout { max_rows: scalars.max_rows, max_seqs: scalars.max_seqs, max_blocks: scalars.max_blocks }
}

struct Sizes {
    op: Op,
    problem: Problem,
}

impl Sizes {
    fn positive(&self, letter: &str, value: u64) -> Result<u64, OracleError> {
        if value == 0 {
            return Err(OracleError::size(self.op, format!("{letter} is 0, expected at least 1")));
        }
        Ok(value)
    }

    fn m(&self) -> Result<u64, OracleError> {
        // A relayout of one source has no second row count.
        if self.op == Op::Relayout { Ok(self.problem.m) } else { self.positive("M", self.problem.m) }
    }

    fn n(&self) -> Result<u64, OracleError> {
        self.positive("N", self.problem.n)
    }

    fn k(&self) -> Result<u64, OracleError> {
        self.positive("K", self.problem.k)
    }

    fn batch(&self) -> Result<u64, OracleError> {
        self.positive("the number of sequences", self.problem.batch)
    }

    fn tables(&self, max_blocks: u32) -> Result<u64, OracleError> {
        self.positive("max_blocks", u64::from(max_blocks))
    }

    fn product(&self, a: u64, b: u64) -> Result<u64, OracleError> {
        a.checked_mul(b).ok_or_else(|| OracleError::size(self.op, format!("{a} x {b} overflows 64 bits")))
    }

    /// Bytes of `rows` rows of `width` four-byte elements.
    fn words(&self, rows: u64, width: u64) -> Result<u64, OracleError> {
        self.product(self.product(rows, width)?, 4)
    }

    fn weight(&self, format: Option<Format>, rows: u64, width: u64) -> Result<u64, OracleError> {
        let Some(format) = format else {
            return Err(OracleError::size(self.op, "the format of the weight is not given"));
        };
        let Some(row) = format.row_bytes(width) else {
            let what = format!("K = {width} is not a multiple of {}, {format}'s block", format.block_len());
            return Err(OracleError::size(self.op, what));
        };
        self.product(rows, row)
    }

    fn scalars<T: bytemuck::Pod>(&self, bytes: &[u8]) -> Result<T, OracleError> {
        scalars::read_step(&[self.op], 0, bytes).ok_or_else(|| {
            let what = format!("expected {} bytes of scalars, got {}", size_of::<T>(), bytes.len());
            OracleError::size(self.op, what)
        })
    }

    /// Holds the widths of the problem against the heads of the scalars.
    fn heads(&self, n: u64, k: u64, heads: u32, heads_kv: u32, dim: u32) -> Result<(), OracleError> {
        let wide = |heads: u32| u64::from(heads) * u64::from(dim);
        let divides = heads_kv != 0 && heads.is_multiple_of(heads_kv);
        if n == 0 || k == 0 || n != wide(heads) || k != wide(heads_kv) || !divides {
            let what = format!("widths {n} and {k} do not fit {heads} and {heads_kv} heads of {dim}");
            return Err(OracleError::size(self.op, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_by_hand() {
        let problem = Problem { m: 3, n: 5, k: 64, ..Problem::default() };
        let bytes = |format, operand| operand_bytes(Op::Matmul, &problem, &[0; 8], format, operand);
        assert_eq!(bytes(None, 0), Ok(Some(3 * 64 * 4)));
        assert_eq!(bytes(Some(Format::Q8_0), 1), Ok(Some(5 * 2 * 34)));
        assert_eq!(bytes(None, 2), Ok(Some(20)));
        assert_eq!(bytes(None, 3), Ok(Some(60)));
        assert!(bytes(Some(Format::Q4_K), 1).unwrap_err().to_string().contains("256"));
        assert!(bytes(None, 4).is_err());
        let huge = Problem { m: u64::MAX, n: 5, k: 64, ..Problem::default() };
        assert!(operand_bytes(Op::Matmul, &huge, &[0; 8], None, 0).is_err());
    }

    #[test]
    fn planes_are_any_whole_number_of_blocks() {
        let scalars = AttentionScalars {
            n_head: 4,
            n_head_kv: 2,
            head_dim: 8,
            max_blocks: 3,
            scale: 1.0,
            softcap: 0.0,
            window: 0,
            causal: 1,
        };
        let problem = Problem { m: 2, n: 32, k: 48, batch: 2, aux: 0 };
        let bytes =
            |operand| operand_bytes(Op::Attention, &problem, bytemuck::bytes_of(&scalars), None, operand);
        assert_eq!(bytes(1), Ok(None));
        assert_eq!(bytes(3), Ok(Some(12)));
        assert_eq!(bytes(5), Ok(Some(24)));
        let narrow = Problem { n: 31, ..problem };
        assert!(operand_bytes(Op::Attention, &narrow, bytemuck::bytes_of(&scalars), None, 0).is_err());
    }
}
