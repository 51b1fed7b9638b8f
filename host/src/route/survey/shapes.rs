//! Problems and scalar blocks of the kinds of shapes.

use bytemuck::Zeroable;
use cajeta_abi::{FormatId, Problem, Regime};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_catalog::scalars::{AttentionScalars, RopeAppendScalars, scalar_bytes};

use super::Shape;

/// Query heads, key heads and their size.
fn heads(shape: Shape) -> (u32, u32, u32) {
    match shape {
        Shape::Usual => (32, 8, 128),
        Shape::Odd => (9, 3, 64),
        Shape::Broken => (7, 1, 7),
    }
}

/// The problem of an op whose weight is stored in `format`.
pub(super) fn problem(op: Op, regime: Regime, format: FormatId, shape: Shape) -> Problem {
    let block = Format::from_id(format.0).map_or(1, |format| format.block_len() as u64);
    let (n, k) = match shape {
        Shape::Usual => (4096, 4096),
        Shape::Odd => (1000, 3 * block.max(64)),
        Shape::Broken => (7, 7),
    };
    let m = match (regime, shape) {
        (Regime::DECODE_ROW | Regime::FUSED_TAIL, _) => 1,
        (Regime::DECODE_COLS, _) => 4,
        (_, Shape::Usual) => 512,
        _ => 37,
    };
    let (q, kv, dim) = heads(shape);
    let [q, kv] = [q, kv].map(|count| u64::from(count) * u64::from(dim));
    let batch = if regime == Regime::DECODE_COLS { m } else { 1 };
    match op {
        Op::Attention => Problem { m, n: q, k: 4096, batch, aux: 0 },
        Op::RopeAppend => Problem { m, n: q, k: kv, batch, aux: 0 },
        Op::Relayout => Problem { n, k, ..Problem::default() },
        _ => Problem { m, n, k, batch: 0, aux: 0 },
    }
}

/// The scalar block of an op. Only heads decide anything here.
pub(super) fn scalars(op: Op, shape: Shape) -> Vec<u8> {
    let (n_head, n_head_kv, head_dim) = heads(shape);
    match op {
        Op::Attention => {
            let block = AttentionScalars { n_head, n_head_kv, head_dim, ..AttentionScalars::zeroed() };
            bytemuck::bytes_of(&block).to_vec()
        }
        Op::RopeAppend => {
            let rope_dim = head_dim;
            let block =
                RopeAppendScalars { n_head, n_head_kv, head_dim, rope_dim, ..RopeAppendScalars::zeroed() };
            bytemuck::bytes_of(&block).to_vec()
        }
        _ => vec![0; scalar_bytes(op)],
    }
}
