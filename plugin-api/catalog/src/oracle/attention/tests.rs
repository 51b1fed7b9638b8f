//! Attention against hand-computed values and against itself.

use super::*;
use crate::kv;
use crate::oracle::{self, OracleBuf};
use proptest::prelude::*;

/// One K/V head of 1, two query heads; planes of two blocks.
fn block() -> AttentionScalars {
    AttentionScalars {
        n_head: 2,
        n_head_kv: 1,
        head_dim: 1,
        max_blocks: 2,
        scale: 1.0,
        softcap: 0.0,
        window: 0,
        causal: 1,
    }
}

/// Values 1, 2, 3, … by position with all keys 0, so that a query averages what it sees.
/// Sequence 0 lives in blocks 1 then 0.
fn averages(
    attrs: u64,
    block: AttentionScalars,
    starts: [u32; 2],
    kv_len: u32,
    sinks: Option<[f32; 2]>,
) -> Vec<f32> {
    let keys = [f16::ZERO; 32];
    let values: Vec<f16> = (0..32).map(|at| f16::from_f32((at as f32 + 16.0) % 32.0 + 1.0)).collect();
    let m = 3;
    let mut out = vec![9.0f32; 2 * m];
    let mut buffers = [
        OracleBuf::Plain(bytemuck::cast_slice(&[1.0f32; 6])),
        OracleBuf::Plain(bytemuck::cast_slice(&keys)),
        OracleBuf::Plain(bytemuck::cast_slice(&values)),
        OracleBuf::Plain(bytemuck::cast_slice(&starts)),
        OracleBuf::Plain(bytemuck::bytes_of(&kv_len)),
        OracleBuf::Plain(bytemuck::cast_slice(&[1u32, 0])),
        sinks.as_ref().map_or(OracleBuf::Absent, |sinks| OracleBuf::Plain(bytemuck::cast_slice(sinks))),
        OracleBuf::Out(bytemuck::cast_slice_mut(&mut out)),
    ];
    let problem = Problem { m: m as u64, n: 2, k: 32, batch: 1, aux: 0 };
    oracle::run(OP, attrs, &problem, bytemuck::bytes_of(&block), &mut buffers).unwrap();
    out
}

#[test]
fn causal_window_and_full_by_hand() {
    let causal = block();
    // Positions 17, 18, 19 average 1..=18, 1..=19, 1..=20.
    assert_eq!(averages(0, causal, [0, 3], 20, None), [9.5, 9.5, 10.0, 10.0, 10.5, 10.5]);
    // Two rows only; the third belongs to no sequence.
    assert_eq!(averages(0, causal, [0, 2], 2, None), [1.0, 1.0, 1.5, 1.5, 9.0, 9.0]);
    let window = AttentionScalars { window: 2, ..causal };
    assert_eq!(averages(attr::WINDOW, window, [0, 3], 20, None)[..2], [17.5, 17.5]);
    assert_eq!(averages(0, window, [0, 3], 20, None)[..2], [9.5, 9.5], "not asked for");
    let full = AttentionScalars { causal: 0, ..causal };
    assert_eq!(averages(0, full, [0, 3], 20, None), [10.5; 6]);
}

#[test]
fn a_sink_takes_its_share_by_head() {
    // Sequence of one position: score 0 against sinks 0 and -inf.
    let out = averages(attr::SINKS, block(), [0, 1], 1, Some([0.0, f32::NEG_INFINITY]));
    assert_eq!(out[..2], [0.5, 1.0]);
}

#[test]
fn softcap_and_scale_by_hand() {
    let scoring = Scoring { scale: 0.5, softcap: Some(2.0), window: 0, causal: true };
    // Scores 2 tanh(0.5 * 4 / 2) and 0; values 1 and 0.
    let answer = scoring.attend(&[1.0], &[4.0, 0.0], &[1.0, 0.0], 0..2, None);
    let weight = (2.0 * 1f64.tanh()).exp();
    assert_eq!(answer, [(weight / (weight + 1.0)) as f32]);
    assert_eq!(scoring.attend(&[1.0], &[], &[], 0..0, None), [0.0]);
}

#[test]
fn rows_and_lengths_that_contradict_are_refused() {
    let rows = |seq_start: [u32; 2], kv_len| Rows {
        seq_start: seq_start.into(),
        kv_len: vec![kv_len],
        total: 3,
        bucket: 32,
    };
    assert!(rows([0, 4], 4).of(0).is_err());
    assert!(rows([2, 1], 4).of(0).is_err());
    assert!(rows([0, 3], 2).of(0).is_err());
    assert!(rows([0, 3], 33).of(0).is_err());
    assert_eq!(rows([1, 3], 32).of(0), Ok((1, 2, 32)));
}

proptest! {
    /// A chunk of queries answers as its queries do one at a time.
    #[test]
    fn a_chunk_is_its_rows(kv_len in 1u32..40, rows in 1u32..6, seed in any::<u32>()) {
        let rows = rows.min(kv_len);
        let block = AttentionScalars {
            n_head: 4, n_head_kv: 2, head_dim: 3, max_blocks: 3, scale: 0.6, softcap: 0.0, window: 0, causal: 1,
        };
        let value = |at: usize| ((at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 8) as f32 / 8e6 - 1.0;
        let plane: Vec<f16> =
            (0..3 * kv::block_elements(2, 3) as usize).map(|at| f16::from_f32(value(at))).collect();
        let attend = |kv_len: u32, q: &[f32]| {
            let m = q.len() as u32 / 12;
            let (starts, table) = ([0, m], [2u32, 0, 1]);
            let mut out = vec![0f32; q.len()];
            let mut buffers = [
                OracleBuf::Plain(bytemuck::cast_slice(q)),
                OracleBuf::Plain(bytemuck::cast_slice(&plane)),
                OracleBuf::Plain(bytemuck::cast_slice(&plane)),
                OracleBuf::Plain(bytemuck::cast_slice(&starts)),
                OracleBuf::Plain(bytemuck::bytes_of(&kv_len)),
                OracleBuf::Plain(bytemuck::cast_slice(&table)),
                OracleBuf::Absent,
                OracleBuf::Out(bytemuck::cast_slice_mut(&mut out)),
            ];
            let problem = Problem { m: u64::from(m), n: 12, k: 48, batch: 1, aux: 0 };
            oracle::run(OP, 0, &problem, bytemuck::bytes_of(&block), &mut buffers).unwrap();
            out
        };
        let q: Vec<f32> = (0..rows as usize * 12).map(|at| value(at + 7000)).collect();
        let chunk = attend(kv_len, &q);
        for (row, (q, chunk)) in q.chunks(12).zip(chunk.chunks(12)).enumerate() {
            let alone = attend(kv_len - rows + row as u32 + 1, q);
            prop_assert_eq!(&alone[..], chunk);
        }
    }
}
