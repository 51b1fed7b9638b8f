//! Each op's operands, in the order rows wire them, and what its problem means.
//!
//! Shapes use the letters of [`cajeta_abi::Problem`]: `M` rows, `N` outputs,
//! `K` inputs, `S` sequences (`batch`). Activations are row-major f32 unless a
//! row names another layout for an edge. Optional operands may be absent.

use cajeta_abi::{Access, DtypeId, Problem, Subject};

use crate::op::{Op, attr};
use crate::scalars::{AttentionScalars, RopeAppendScalars};

/// What kind of thing an operand is; decides who provides its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// A tensor of the model.
    Weight,
    /// A value between ops of a step.
    Activation,
    /// A section of the step state (or, for `Advance`, all of it).
    State,
    /// A K or V plane.
    Plane,
}

/// One operand of an op.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operand {
    /// Name for messages.
    pub name: &'static str,
    /// Who provides it.
    pub role: Role,
    /// Read, written, or both.
    pub access: Access,
    /// Element type in the plain layout.
    pub dtype: DtypeId,
    /// Present only with this attribute; 0 for always.
    pub attr: u64,
}

const fn operand(name: &'static str, role: Role, access: Access, dtype: DtypeId) -> Operand {
    Operand { name, role, access, dtype, attr: 0 }
}

const fn with(attr: u64, operand: Operand) -> Operand {
    Operand { attr, ..operand }
}

const F32: DtypeId = DtypeId::F32;
const U32: DtypeId = DtypeId::U32;
const BYTES: DtypeId = DtypeId::BYTES;
const READ: Access = Access::READ;
const WRITE: Access = Access::WRITE;
const BOTH: Access = Access::READ_WRITE;

/// The operands of an op, in wiring order.
///
/// | op | problem |
/// |---|---|
/// | embed | M rows, N table rows, K width |
/// | norm, pack, add, glu | M rows, K width |
/// | matmul | M rows, N output features, K input features |
/// | rope_append | M rows, N = query width, K = key width, batch = S |
/// | attention | M rows, N = query width, K = largest kv_len served, batch = S |
/// | copy | M rows written, N rows of the source, K width |
/// | argmax, sample | M rows, N = vocabulary |
/// | advance | M = S sequences |
/// | relayout | N rows and K width of the first source, M = N rows of the second, aux of the third |
pub const fn operands(op: Op) -> &'static [Operand] {
    use Role::{Activation, Plane, State, Weight};
    const EMBED: &[Operand] = &[
        // u32[M]; an id at or past N writes a row of NaN.
        operand("tokens", State, READ, U32),
        operand("table", Weight, READ, BYTES),
        operand("out", Activation, WRITE, F32),
    ];
    const NORM: &[Operand] = &[
        operand("x", Activation, READ, F32),
        // f32[K]
        operand("weight", Weight, READ, F32),
        operand("out", Activation, WRITE, F32),
    ];
    const PACK: &[Operand] = &[operand("x", Activation, READ, F32), operand("out", Activation, WRITE, BYTES)];
    const MATMUL: &[Operand] = &[
        operand("x", Activation, READ, F32),
        operand("weight", Weight, READ, BYTES),
        // f32[N]
        with(attr::BIAS, operand("bias", Weight, READ, F32)),
        operand("out", Activation, WRITE, F32),
    ];
    const ADD: &[Operand] = &[
        operand("a", Activation, READ, F32),
        operand("b", Activation, READ, F32),
        operand("out", Activation, WRITE, F32),
    ];
    const ROPE_APPEND: &[Operand] = &[
        // f32[M][n_head * head_dim], rotated in place
        operand("q", Activation, BOTH, F32),
        operand("k", Activation, READ, F32),
        operand("v", Activation, READ, F32),
        operand("positions", State, READ, U32),
        operand("row_seq", State, READ, U32),
        operand("block_tables", State, READ, U32),
        // f32[rope_dim / 2]
        with(attr::ROPE_FACTORS, operand("factors", Weight, READ, F32)),
        operand("k_plane", Plane, BOTH, DtypeId::F16),
        operand("v_plane", Plane, BOTH, DtypeId::F16),
    ];
    const ATTENTION: &[Operand] = &[
        operand("q", Activation, READ, F32),
        operand("k_plane", Plane, READ, DtypeId::F16),
        operand("v_plane", Plane, READ, DtypeId::F16),
        // u32[S + 1]; query i of sequence s is at position kv_len[s] - rows(s) + i.
        operand("seq_start", State, READ, U32),
        operand("kv_len", State, READ, U32),
        operand("block_tables", State, READ, U32),
        // f32[n_head]
        with(attr::SINKS, operand("sinks", Weight, READ, F32)),
        operand("out", Activation, WRITE, F32),
    ];
    const GLU: &[Operand] = &[
        operand("gate", Activation, READ, F32),
        operand("up", Activation, READ, F32),
        operand("out", Activation, WRITE, F32),
    ];
    const COPY: &[Operand] = &[
        operand("x", Activation, READ, F32),
        // u32[M]; an index at or past N writes a row of NaN.
        with(attr::INDEXED, operand("index", State, READ, U32)),
        operand("out", Activation, WRITE, F32),
    ];
    const ARGMAX: &[Operand] = &[
        operand("logits", Activation, READ, F32),
        // u32[M]; ties go to the lowest index, NaN never wins, u32::MAX when all are NaN.
        operand("out", State, WRITE, U32),
    ];
    const SAMPLE: &[Operand] = &[
        operand("logits", Activation, READ, F32),
        // SampleParams[M]
        operand("params", State, READ, BYTES),
        operand("out", State, WRITE, U32),
    ];
    const ADVANCE: &[Operand] = &[operand("state", State, BOTH, BYTES)];
    const RELAYOUT: &[Operand] = &[
        operand("source", Weight, READ, BYTES),
        // Present when the layout packs that many sources.
        operand("source2", Weight, READ, BYTES),
        operand("source3", Weight, READ, BYTES),
        operand("out", Weight, WRITE, BYTES),
    ];
    match op {
        Op::Embed => EMBED,
        Op::Norm => NORM,
        Op::Pack => PACK,
        Op::Matmul => MATMUL,
        Op::Add => ADD,
        Op::RopeAppend => ROPE_APPEND,
        Op::Attention => ATTENTION,
        Op::Glu => GLU,
        Op::Copy => COPY,
        Op::Argmax => ARGMAX,
        Op::Sample => SAMPLE,
        Op::Advance => ADVANCE,
        Op::Relayout => RELAYOUT,
    }
}

/// The value a shape gate's subject has for one op instance; `None` when the
/// op has no such thing.
pub fn subject(op: Op, problem: &Problem, scalars: &[u8], subject: Subject) -> Option<u64> {
    let heads = || -> Option<(u32, u32, u32, u32)> {
        match op {
            Op::Attention => {
                let s: AttentionScalars = bytemuck::try_pod_read_unaligned(scalars).ok()?;
                Some((s.n_head, s.n_head_kv, s.head_dim, 0))
            }
            Op::RopeAppend => {
                let s: RopeAppendScalars = bytemuck::try_pod_read_unaligned(scalars).ok()?;
                Some((s.n_head, s.n_head_kv, s.head_dim, s.rope_dim))
            }
            _ => None,
        }
    };
    match subject {
        Subject::M => Some(problem.m),
        Subject::N => Some(problem.n),
        Subject::K => Some(problem.k),
        Subject::BATCH => Some(problem.batch),
        Subject::AUX => Some(problem.aux),
        Subject::HEAD_DIM => heads().map(|(_, _, dim, _)| u64::from(dim)),
        Subject::GROUP => heads().and_then(|(q, kv, _, _)| q.checked_div(kv)).map(u64::from),
        Subject::ROPE_DIM if op == Op::RopeAppend => heads().map(|(_, _, _, rope)| u64::from(rope)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_the_op_lacks_is_absent() {
        let problem = Problem { m: 1, n: 2, k: 3, batch: 4, aux: 5 };
        assert_eq!(subject(Op::Matmul, &problem, &[], Subject::K), Some(3));
        assert_eq!(subject(Op::Matmul, &problem, &[], Subject::HEAD_DIM), None);
        assert_eq!(subject(Op::Attention, &problem, &[0; 4], Subject::HEAD_DIM), None);
    }

    #[test]
    fn every_op_writes_something() {
        for op in Op::ALL {
            assert!(operands(op).iter().any(|o| o.access != Access::READ), "{}", op.name());
        }
    }
}
