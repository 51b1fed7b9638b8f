//! `rope_append`: rotates each row's queries in place and its keys, and writes
//! keys and values to the row's position in the planes, rounded to f16.
//!
//! Row `m` is position `positions[m]` of sequence `row_seq[m]`. Values are not
//! rotated. No other position of the planes changes.

use cajeta_abi::Problem;
use half::f16;

use super::OracleError;
use super::operands::{Operands, scalars};
use super::plane::Pages;
use super::rope::{Frequencies, rotate};
use crate::op::{Op, attr};
use crate::scalars::RopeAppendScalars;

const OP: Op = Op::RopeAppend;

pub(super) fn run(
    attrs: u64,
    problem: &Problem,
    block: &[u8],
    operands: &mut Operands<'_>,
) -> Result<(), OracleError> {
    let block: RopeAppendScalars = scalars(OP, block)?;
    let (m, head_dim) = (problem.m, block.head_dim as usize);
    let mut q = operands.f32s(0, m.saturating_mul(problem.n))?;
    let mut k = operands.f32s(1, m.saturating_mul(problem.k))?;
    let v = operands.f32s(2, m.saturating_mul(problem.k))?;
    let positions = operands.u32s(3, m)?;
    let row_seq = operands.u32s(4, m)?;
    let tables = operands.u32s(5, problem.batch.saturating_mul(u64::from(block.max_blocks)))?;
    let factors = operands.optional_f32s(6, u64::from(block.rope_dim / 2))?;

    let frequencies = Frequencies::new(&block, factors.as_deref(), attrs & attr::ROPE_YARN != 0);
    let pairs = attrs & attr::ROPE_PAIRS != 0;
    let pages = Pages {
        op: OP,
        tables: &tables,
        max_blocks: block.max_blocks,
        n_head_kv: block.n_head_kv,
        head_dim: block.head_dim,
    };
    let (width_q, width_k) = (problem.n as usize, problem.k as usize);
    for (q, (k, &position)) in q.chunks_exact_mut(width_q).zip(k.chunks_exact_mut(width_k).zip(&positions)) {
        let turns = frequencies.at(position);
        for head in q.chunks_exact_mut(head_dim).chain(k.chunks_exact_mut(head_dim)) {
            rotate(head, &turns, pairs);
        }
    }
    for (plane, rows) in [(7, &k), (8, &v)] {
        let plane = operands.out(plane)?;
        let blocks = pages.blocks(plane.len());
        for ((row, &position), &seq) in rows.chunks_exact(width_k).zip(&positions).zip(&row_seq) {
            for (head, values) in (0..).zip(row.chunks_exact(head_dim)) {
                let place = pages.head(seq, position, head, blocks)?;
                for (to, &value) in plane[place].as_chunks_mut::<2>().0.iter_mut().zip(values) {
                    *to = f16::from_f32(value).to_le_bytes();
                }
            }
        }
    }
    operands.write_f32s(0, &q)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{self, OracleBuf};
    use bytemuck::Zeroable;

    /// One head of 2 for K and V, two for Q; two sequences of two pages; a plane of three blocks.
    fn block() -> RopeAppendScalars {
        RopeAppendScalars {
            n_head: 2,
            n_head_kv: 1,
            head_dim: 2,
            rope_dim: 2,
            max_blocks: 2,
            base: 10000.0,
            freq_scale: std::f32::consts::FRAC_PI_2,
            ..RopeAppendScalars::zeroed()
        }
    }

    fn append(
        positions: &[u32],
        tables: &[u32],
        q: &mut [f32],
        planes: [&mut [u8]; 2],
    ) -> Result<(), OracleError> {
        let k = [1.0f32, 2.0, 5.0, 6.0];
        let v = [7.0f32, 8.0, 9.0, 10.0];
        let row_seq = [0u32, 1];
        let [k_plane, v_plane] = planes;
        let mut buffers = [
            OracleBuf::Out(bytemuck::cast_slice_mut(q)),
            OracleBuf::Plain(bytemuck::cast_slice(&k)),
            OracleBuf::Plain(bytemuck::cast_slice(&v)),
            OracleBuf::Plain(bytemuck::cast_slice(positions)),
            OracleBuf::Plain(bytemuck::cast_slice(&row_seq)),
            OracleBuf::Plain(bytemuck::cast_slice(tables)),
            OracleBuf::Absent,
            OracleBuf::Out(k_plane),
            OracleBuf::Out(v_plane),
        ];
        let problem = Problem { m: 2, n: 4, k: 2, batch: 2, aux: 0 };
        oracle::run(OP, 0, &problem, bytemuck::bytes_of(&block()), &mut buffers)
    }

    #[test]
    fn rotates_and_appends_by_hand() {
        let mut q = [1.0, 0.0, 0.0, 1.0, 3.0, 4.0, 3.0, 4.0];
        // Each block: 16 positions of 2 halves, 64 bytes.
        let (mut k_plane, mut v_plane) = ([0u8; 192], [0u8; 192]);
        // Sequence 0 is at position 0 (no turn), sequence 1 at 17 (17 quarter turns: one).
        append(&[0, 17], &[2, 0, 0, 1], &mut q, [&mut k_plane, &mut v_plane]).unwrap();
        let expected = [1.0, 0.0, 0.0, 1.0, -4.0, 3.0, -4.0, 3.0];
        for (got, expected) in q.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-4, "{q:?}");
        }
        let read = |plane: &[u8], at: usize| {
            let word = |at: usize| f16::from_le_bytes([plane[at], plane[at + 1]]).to_f32();
            [word(at), word(at + 2)]
        };
        // Block 2 slot 0; block 1 slot 1.
        assert_eq!((read(&k_plane, 128), read(&v_plane, 128)), ([1.0, 2.0], [7.0, 8.0]));
        assert_eq!((read(&k_plane, 68), read(&v_plane, 68)), ([-6.0, 5.0], [9.0, 10.0]));
        assert_eq!(k_plane.iter().filter(|&&byte| byte != 0).count(), 4, "nothing else is written");
    }

    #[test]
    fn places_outside_the_planes_are_refused() {
        let mut q = [0.0; 8];
        let (mut k_plane, mut v_plane) = ([0u8; 192], [0u8; 192]);
        let error = append(&[0, 17], &[3, 0, 0, 1], &mut q, [&mut k_plane, &mut v_plane]).unwrap_err();
        assert_eq!(error.to_string(), "rope_append: block 3 is out of range, expected less than 3");
        let error = append(&[0, 32], &[0, 0, 0, 1], &mut q, [&mut k_plane, &mut v_plane]).unwrap_err();
        assert_eq!(error.to_string(), "rope_append: position 32 is out of range, expected less than 32");
    }
}
