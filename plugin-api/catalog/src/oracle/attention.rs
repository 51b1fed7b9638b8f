//! `attention`: variable-length queries over the paged planes.
//!
//! Row `seq_start[s] + i` is query `i` of sequence `s`, at position
//! `p = kv_len[s] - rows(s) + i`. It sees key `j < kv_len[s]` when `j <= p`
//! (causal) and `j > p - window` (window). Query head `h` reads K/V head
//! `h / group`. Scores are `cap(scale * q·k)`; a sink joins the softmax's sum as
//! one more score without a value. A query that sees no key answers zeros. Rows
//! at or past `seq_start[S]` belong to no sequence and are not written.

use cajeta_abi::Problem;
use half::f16;

use super::OracleError;
use super::matmul::cap;
use super::operands::{Operands, scalars};
use super::plane::Pages;
use crate::op::{Op, attr};
use crate::scalars::AttentionScalars;

const OP: Op = Op::Attention;

pub(super) fn run(
    attrs: u64,
    problem: &Problem,
    block: &[u8],
    operands: &mut Operands<'_>,
) -> Result<(), OracleError> {
    let block: AttentionScalars = scalars(OP, block)?;
    let width = problem.n as usize;
    let q = operands.f32s(0, problem.m.saturating_mul(problem.n))?;
    let seq_start = operands.u32s(3, problem.batch.saturating_add(1))?;
    let kv_len = operands.u32s(4, problem.batch)?;
    let tables = operands.u32s(5, problem.batch.saturating_mul(u64::from(block.max_blocks)))?;
    let sinks = operands.optional_f32s(6, u64::from(block.n_head))?;
    let rows = Rows { seq_start, kv_len, total: problem.m, bucket: problem.k };
    let pages = Pages {
        op: OP,
        tables: &tables,
        max_blocks: block.max_blocks,
        n_head_kv: block.n_head_kv,
        head_dim: block.head_dim,
    };
    let scoring = Scoring {
        scale: f64::from(block.scale),
        softcap: (attrs & attr::SOFTCAP != 0).then_some(f64::from(block.softcap)),
        window: if attrs & attr::WINDOW != 0 { block.window } else { 0 },
        causal: block.causal != 0,
    };

    let group = (block.n_head / block.n_head_kv) as usize;
    let head_dim = block.head_dim as usize;
    let mut out = Vec::new();
    for seq in 0..rows.kv_len.len() {
        let (first, queries, kv_len) = rows.of(seq)?;
        for head_kv in 0..block.n_head_kv {
            let keys = gather(&pages, operands.plain(1), seq as u32, kv_len, head_kv)?;
            let values = gather(&pages, operands.plain(2), seq as u32, kv_len, head_kv)?;
            for query in 0..queries {
                let row = first as usize + query as usize;
                let seen = scoring.seen(kv_len - queries + query, kv_len);
                for head in head_kv as usize * group..(head_kv as usize + 1) * group {
                    let at = row * width + head * head_dim;
                    let sink = sinks.as_ref().and_then(|sinks| sinks.get(head)).copied();
                    let answer = scoring.attend(&q[at..at + head_dim], &keys, &values, seen.clone(), sink);
                    out.push((at, answer));
                }
            }
        }
    }
    let written = operands.out(7)?;
    for (at, answer) in out {
        for (to, value) in written[at * 4..].as_chunks_mut::<4>().0.iter_mut().zip(answer) {
            *to = value.to_le_bytes();
        }
    }
    Ok(())
}

/// Which rows each sequence owns.
struct Rows {
    seq_start: Vec<u32>,
    kv_len: Vec<u32>,
    total: u64,
    bucket: u64,
}

impl Rows {
    /// First row, number of rows and cached positions of a sequence.
    fn of(&self, seq: usize) -> Result<(u32, u32, u32), OracleError> {
        let (Some(&first), Some(&end), Some(&kv_len)) =
            (self.seq_start.get(seq), self.seq_start.get(seq + 1), self.kv_len.get(seq))
        else {
            return Err(OracleError::size(OP, format!("sequence {seq} has no entry in seq_start")));
        };
        if first > end || u64::from(end) > self.total {
            let what = format!("sequence {seq} owns rows {first}..{end} of {}", self.total);
            return Err(OracleError::size(OP, what));
        }
        let queries = end - first;
        if kv_len < queries || u64::from(kv_len) > self.bucket {
            let what = format!(
                "sequence {seq} has kv_len {kv_len}, expected at least its {queries} rows and at most K = {}",
                self.bucket
            );
            return Err(OracleError::size(OP, what));
        }
        Ok((first, queries, kv_len))
    }
}

/// One head of a sequence's plane, position after position.
fn gather(
    pages: &Pages<'_>,
    plane: &[u8],
    seq: u32,
    kv_len: u32,
    head: u32,
) -> Result<Vec<f32>, OracleError> {
    let blocks = pages.blocks(plane.len());
    let mut out = Vec::new();
    for position in 0..kv_len {
        let place = pages.head(seq, position, head, blocks)?;
        out.extend(plane[place].as_chunks::<2>().0.iter().map(|&word| f16::from_le_bytes(word).to_f32()));
    }
    Ok(out)
}

struct Scoring {
    scale: f64,
    softcap: Option<f64>,
    window: u32,
    causal: bool,
}

impl Scoring {
    /// The positions a query at `position` sees.
    fn seen(&self, position: u32, kv_len: u32) -> std::ops::Range<usize> {
        let end = if self.causal { position + 1 } else { kv_len };
        let start = if self.window == 0 { 0 } else { (position + 1).saturating_sub(self.window) };
        start as usize..end as usize
    }

    fn attend(
        &self,
        q: &[f32],
        keys: &[f32],
        values: &[f32],
        seen: std::ops::Range<usize>,
        sink: Option<f32>,
    ) -> Vec<f32> {
        let dim = q.len();
        let of = |rows: &[f32], j: usize| -> Vec<f64> {
            rows[j * dim..(j + 1) * dim].iter().map(|&value| f64::from(value)).collect()
        };
        let q: Vec<f64> = q.iter().map(|&value| f64::from(value)).collect();
        let scores: Vec<f64> = seen
            .clone()
            .map(|j| {
                let product: f64 = q.iter().zip(of(keys, j)).map(|(q, k)| q * k).sum();
                cap(product * self.scale, self.softcap)
            })
            .collect();
        let sink = sink.map(f64::from);
        let largest = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
        let mut total = sink.map_or(0.0, |sink| (sink - largest).exp());
        let mut sums = vec![0f64; dim];
        for (score, j) in scores.iter().zip(seen) {
            let weight = (score - largest).exp();
            total += weight;
            for (sum, value) in sums.iter_mut().zip(of(values, j)) {
                *sum += weight * value;
            }
        }
        sums.iter().map(|sum| if total == 0.0 { 0.0 } else { (sum / total) as f32 }).collect()
    }
}

#[cfg(test)]
mod tests;
