//! Draws a launch of a row: attributes, sizes and scalars that its gates admit.

use bytemuck::bytes_of;
use cajeta_abi::{Problem, Regime, Row, ShapeGate, Subject, Test};
use cajeta_catalog::contract::{operands, subject};
use cajeta_catalog::op::{Op, attr};
use cajeta_catalog::oracle::shapes::row_ops;
use cajeta_catalog::quant::Format;
use cajeta_catalog::scalars::{
    AdvanceScalars, AttentionScalars, EmbedScalars, GluScalars, MatmulScalars, NormScalars,
    RopeAppendScalars, scalar_bytes,
};

use crate::random::Random;

/// Attempts before a row counts as one that no small problem satisfies.
const ATTEMPTS: u32 = 4000;
/// Most products one case takes, so that a suite ends in seconds.
const WORK_MAX: u64 = 1 << 24;

/// Most elements of one weight or table.
const ELEMENTS_MAX: u64 = 5 << 20;

/// A drawn launch.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) ops: Vec<Op>,
    pub(crate) problem: Problem,
    /// Asked for, per step.
    pub(crate) attrs: Vec<u64>,
    pub(crate) scalars: Vec<u8>,
}

/// Sizes that are given rather than drawn.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Given {
    pub(crate) m: Option<u64>,
    pub(crate) k: Option<u64>,
    /// Widths of products are one block, for devices of small bindings.
    pub(crate) narrow: bool,
}

/// The bits of a row's attributes that mean something to an op.
fn attr_mask(op: Op) -> u64 {
    match op {
        Op::Embed => attr::SCALE,
        Op::Norm => attr::NORM_OFFSET,
        Op::Matmul => attr::BIAS | attr::SOFTCAP,
        Op::RopeAppend => attr::ROPE_PAIRS | attr::ROPE_FACTORS | attr::ROPE_YARN,
        Op::Attention => attr::SOFTCAP | attr::WINDOW | attr::SINKS,
        Op::Glu => attr::GLU_GELU,
        Op::Copy => attr::INDEXED,
        _ => 0,
    }
}

/// Draws case number `case` of a row; `None` when no small problem satisfies it.
pub(crate) fn draw(row: &Row, case: u32, given: Given, random: &mut Random) -> Option<Drawn> {
    let ops = row_ops(row).ok()?;
    let main = row.problem_step as usize;
    let main_op = *ops.get(main)?;
    let attrs: Vec<u64> = ops
        .iter()
        .zip(row.steps.iter())
        .map(|(&op, step)| {
            let absent = operands(op)
                .iter()
                .zip(step.operands.iter())
                .filter(|(o, wire)| o.attr != 0 && wire.as_arg().is_none());
            let cannot = absent.fold(0, |bits, (operand, _)| bits | operand.attr);
            let can = step.attrs & attr_mask(op) & !cannot;
            let asked = match case {
                0 => 0,
                1 => can,
                _ => can & random.next(),
            };
            asked & !attr::EXACT | can & attr::EXACT
        })
        .collect();

    for _ in 0..ATTEMPTS {
        let heads = Heads::draw(row, random);
        let problem = sizes(row, main_op, case, &heads, given, &attrs, random);
        let scalars = scalars(&ops, &attrs, &problem, &heads, random);
        let admitted = row
            .shape_gates
            .iter()
            .all(|gate| admits(gate, subject_of(&ops, main, &problem, &scalars, gate.subject)));
        let work = problem.m.saturating_mul(problem.n.max(1)).saturating_mul(problem.k.max(1));
        let elements = problem.n.max(1).saturating_mul(problem.k.max(1));
        let light = match main_op {
            // Its K is a context, not a width.
            Op::Attention => work <= WORK_MAX * 4,
            _ => work <= WORK_MAX && elements <= ELEMENTS_MAX,
        };
        if admitted && light {
            return Some(Drawn { ops, problem, attrs, scalars });
        }
    }
    None
}

/// What a gate looks at: of the launch's own step, else of the first step that has it, as a host looks.
fn subject_of(ops: &[Op], main: usize, problem: &Problem, scalars: &[u8], of: Subject) -> Option<u64> {
    let value = |step: usize| {
        let start: usize = ops.iter().take(step).map(|&op| scalar_bytes(op)).sum();
        let op = *ops.get(step)?;
        subject(op, problem, scalars.get(start..start + scalar_bytes(op))?, of)
    };
    std::iter::once(main).chain(0..ops.len()).find_map(value)
}

/// Whether a gate admits a value. A test this suite does not know admits nothing.
pub(crate) fn admits(gate: &ShapeGate, value: Option<u64>) -> bool {
    let (Some(value), Some(&first)) = (value, gate.values.first()) else { return false };
    match gate.test {
        Test::MULTIPLE_OF => first != 0 && value.is_multiple_of(first),
        Test::AT_MOST => value <= first,
        Test::AT_LEAST => value >= first,
        Test::ONE_OF => gate.values.contains(&value),
        _ => false,
    }
}

/// Values worth trying for a subject: the usual ones, and those its gates name.
fn values(row: &Row, of: Subject, usual: &[u64]) -> Vec<u64> {
    let mut values: Vec<u64> = usual.to_vec();
    for gate in row.shape_gates.iter().filter(|gate| gate.subject == of) {
        match (gate.test, gate.values.first()) {
            (Test::MULTIPLE_OF, Some(&v)) => {
                values = values.iter().map(|x| x.next_multiple_of(v.max(1))).collect();
                values.extend([1, 2, 3].map(|times| v.saturating_mul(times)));
            }
            (Test::AT_MOST, Some(&v)) => values.push(v.min(4096)),
            (Test::AT_LEAST, Some(&v)) => {
                values = values.iter().map(|&x| x.max(v)).collect();
                values.extend([v.saturating_add(1), v.saturating_mul(2)]);
            }
            (Test::ONE_OF, _) => values.extend(gate.values.iter().copied()),
            _ => {}
        }
    }
    values
}

struct Heads {
    n_head: u32,
    n_head_kv: u32,
    head_dim: u32,
    rope_dim: u32,
}

impl Heads {
    fn draw(row: &Row, random: &mut Random) -> Heads {
        let pick = |random: &mut Random, of, usual: &[u64]| {
            u32::try_from(random.pick(&values(row, of, usual)).unwrap_or(1)).unwrap_or(u32::MAX).min(4096)
        };
        let head_dim = pick(random, Subject::HEAD_DIM, &[64, 64, 128, 32, 96, 80, 256]);
        let n_head_kv = random.within(1, 3) as u32;
        let group = pick(random, Subject::GROUP, &[1, 2, 3, 4, 8]);
        let rope_dim = pick(
            random,
            Subject::ROPE_DIM,
            &[u64::from(head_dim), u64::from(head_dim), u64::from(head_dim / 4) * 2],
        );
        let rope_dim = rope_dim.min(head_dim) / 2 * 2;
        Heads { n_head: n_head_kv.saturating_mul(group), n_head_kv, head_dim, rope_dim }
    }
}

fn sizes(
    row: &Row,
    op: Op,
    case: u32,
    heads: &Heads,
    given: Given,
    attrs: &[u64],
    random: &mut Random,
) -> Problem {
    let rows: &[u64] = match (row.regime, op) {
        (Regime::DECODE_ROW, Op::Matmul) => &[1],
        (Regime::DECODE_ROW, _) => &[1, 1, 2, 3],
        (Regime::DECODE_COLS, _) => &[1, 2, 3, 4, 5, 8],
        (Regime::FUSED_TAIL, _) => &[1, 2, 3, 4],
        _ => &[1, 2, 3, 7, 16, 17, 33, 64, 70],
    };
    let block = widths(row);
    let mut pick = |of, usual: &[u64]| random.pick(&values(row, of, usual)).unwrap_or(1);
    let m = given
        .m
        .unwrap_or_else(|| if case == 0 { values(row, Subject::M, &[1])[0] } else { pick(Subject::M, rows) });
    let n_usual: &[u64] =
        if case == 0 { &[1] } else { &[1, 2, 3, 5, 7, 16, 31, 33, 64, 96, 130, 256, 512, 16_385, 70_001] };
    let k_usual = if case == 0 {
        vec![block]
    } else if block == 1 {
        vec![1, 2, 3, 7, 32, 33, 64, 100, 256, 257, 768, 4096, 11_009]
    } else {
        [1, 2, 3, 5, 8, 4096_u64.div_ceil(block), 14_336_u64.div_ceil(block)]
            .map(|blocks| blocks * block)
            .to_vec()
    };
    let width = |heads_of: u32| u64::from(heads_of) * u64::from(heads.head_dim);
    let asked = attrs.get(row.problem_step as usize).copied().unwrap_or(0);
    let appends = row.steps.iter().any(|step| step.op == Op::RopeAppend.id());
    let (n, k, batch) = match op {
        // The projections in front of an append are as wide as its heads.
        Op::Matmul if appends => (width(heads.n_head), pick(Subject::K, &k_usual), 1),
        Op::Embed | Op::Matmul => (pick(Subject::N, n_usual), pick(Subject::K, &k_usual), 0),
        Op::Norm | Op::Pack | Op::Add | Op::Glu => (0, pick(Subject::K, &k_usual), 0),
        Op::Copy => {
            let more = pick(Subject::N, n_usual);
            (if asked & attr::INDEXED != 0 { more } else { m.max(more) }, pick(Subject::K, &k_usual), 0)
        }
        Op::RopeAppend => (width(heads.n_head), width(heads.n_head_kv), 1),
        Op::Attention => {
            (width(heads.n_head), pick(Subject::K, &[m, 5, 16, 17, 48, 100, 256, 301, 1040, 2100]).max(m), 1)
        }
        Op::Argmax | Op::Sample => (pick(Subject::N, &[1, 2, 31, 255, 256, 257, 1000, 5003]), 0, 0),
        Op::Advance => (0, 0, 0),
        Op::Relayout => (pick(Subject::N, n_usual), pick(Subject::K, &k_usual), 0),
    };
    // Decode steps have one row per sequence; a prefill shares its rows out.
    let decode = matches!(row.regime, Regime::DECODE_ROW | Regime::DECODE_COLS);
    let batch = match batch {
        0 => 0,
        _ if decode => m,
        _ => 1 + random.below(m.min(3)),
    };
    // The outputs of a second projection, where nothing else says them.
    let aux = if op == Op::Matmul && row.steps.len() > 1 && !appends {
        random.pick(&[16, 32, 64]).unwrap_or(16)
    } else {
        0
    };
    let narrow = (given.narrow && op == Op::Matmul).then_some(block);
    Problem { m, n, k: given.k.or(narrow).unwrap_or(k), batch, aux }
}

/// A width that is whole blocks of every weight of the row.
fn widths(row: &Row) -> u64 {
    let blocks =
        row.args.iter().filter_map(|arg| Format::from_id(arg.format.0)).map(|f| f.block_len() as u64);
    blocks.max().unwrap_or(1)
}

fn scalars(ops: &[Op], attrs: &[u64], problem: &Problem, heads: &Heads, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A sequence may have all rows of the step.
    let blocks = problem.k.max(problem.m).div_ceil(16) as u32 + random.below(3) as u32;
    for (&op, &attrs) in ops.iter().zip(attrs) {
        let has = |bit: u64| attrs & bit != 0;
        let softcap = |random: &mut Random| if has(attr::SOFTCAP) { random.between(1.0, 30.0) } else { 0.0 };
        match op {
            Op::Embed => {
                let scale = if has(attr::SCALE) { random.between(0.5, 30.0) } else { 1.0 };
                bytes.extend(bytes_of(&EmbedScalars { scale, reserved: 0 }));
            }
            Op::Norm => {
                let offset = if has(attr::NORM_OFFSET) { 1.0 } else { 0.0 };
                let eps = random.pick(&[1e-5, 1e-6, 1e-2]).unwrap_or(1e-5);
                bytes.extend(bytes_of(&NormScalars { eps, offset }));
            }
            Op::Matmul => bytes.extend(bytes_of(&MatmulScalars { softcap: softcap(random), reserved: 0 })),
            Op::Glu => bytes.extend(bytes_of(&GluScalars { reserved: [0; 2] })),
            Op::RopeAppend => bytes.extend(bytes_of(&rope(has(attr::ROPE_YARN), heads, blocks, random))),
            Op::Attention => bytes.extend(bytes_of(&AttentionScalars {
                n_head: heads.n_head,
                n_head_kv: heads.n_head_kv,
                head_dim: heads.head_dim,
                max_blocks: blocks,
                scale: (heads.head_dim as f32).sqrt().recip(),
                softcap: softcap(random),
                window: if has(attr::WINDOW) { random.within(1, problem.k.max(1)) as u32 } else { 0 },
                causal: u32::from(!random.chance(12)),
            })),
            Op::Advance => bytes.extend(bytes_of(&AdvanceScalars {
                max_rows: problem.m as u32 + random.below(70) as u32,
                max_seqs: problem.m as u32 + random.below(4) as u32,
                max_blocks: random.within(1, 40) as u32,
                reserved: 0,
            })),
            Op::Pack | Op::Add | Op::Copy | Op::Argmax | Op::Sample | Op::Relayout => {}
        }
    }
    bytes
}

fn rope(yarn: bool, heads: &Heads, blocks: u32, random: &mut Random) -> RopeAppendScalars {
    RopeAppendScalars {
        n_head: heads.n_head,
        n_head_kv: heads.n_head_kv,
        head_dim: heads.head_dim,
        rope_dim: heads.rope_dim,
        // Positions of an appended row are drawn within these.
        max_blocks: blocks.max(1) + random.below(60) as u32,
        original_context: if yarn { 4096 } else { 0 },
        base: random.pick(&[10_000.0, 500_000.0, 1_000_000.0]).unwrap_or(10_000.0),
        freq_scale: random.pick(&[1.0, 1.0, 0.25]).unwrap_or(1.0),
        attn_factor: if yarn { random.between(1.0, 1.3) } else { 1.0 },
        ext_factor: if yarn { 1.0 } else { 0.0 },
        beta_fast: if yarn { 32.0 } else { 0.0 },
        beta_slow: if yarn { 1.0 } else { 0.0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi_stable::std_types::{RSlice, RStr};

    #[test]
    fn gates_by_hand() {
        static VALUES: [u64; 2] = [64, 128];
        let gate = |test| ShapeGate {
            name: RStr::from_str("g"),
            subject: Subject::K,
            test,
            values: RSlice::from_slice(&VALUES),
        };
        assert!(admits(&gate(Test::MULTIPLE_OF), Some(192)) && !admits(&gate(Test::MULTIPLE_OF), Some(65)));
        assert!(admits(&gate(Test::AT_MOST), Some(64)) && !admits(&gate(Test::AT_MOST), Some(65)));
        assert!(admits(&gate(Test::AT_LEAST), Some(64)) && !admits(&gate(Test::AT_LEAST), Some(63)));
        assert!(admits(&gate(Test::ONE_OF), Some(128)) && !admits(&gate(Test::ONE_OF), Some(96)));
        assert!(!admits(&gate(Test(99)), Some(64)) && !admits(&gate(Test::AT_MOST), None));
    }
}
