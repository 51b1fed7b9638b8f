//! The size of each step of a fusion, from the size a launch carries.
//!
//! A launch carries the problem of one step, `Row::problem_step`. The other
//! steps follow: where two steps share a value or an argument, its rows and
//! width are the same for both. What that leaves open is settled so: heads fix
//! the widths of `rope_append` and `attention`; rows are those of the launch;
//! the outputs of a projection beside the first (k and v of a fused q|k|v) are
//! `Problem::aux`.

use cajeta_abi::{Problem, Row, Wire};

use super::OracleError;
use crate::contract;
use crate::op::Op;
use crate::scalars::{self, AttentionScalars, RopeAppendScalars};

#[derive(Clone, Copy)]
enum Letter {
    M,
    N,
    K,
}

use Letter::{K, M, N};

/// Rows and width of an activation operand.
fn extent(op: Op, operand: &str) -> Option<(Letter, Letter)> {
    match (op, operand) {
        (Op::Embed, "out") | (Op::Matmul, "x") | (Op::Copy, "out") => Some((M, K)),
        (Op::Copy, "x") => Some((N, K)),
        (Op::Norm, "x" | "out") | (Op::Pack | Op::Add | Op::Glu, _) => Some((M, K)),
        (Op::RopeAppend, "k" | "v") => Some((M, K)),
        (Op::RopeAppend | Op::Attention, "q") | (Op::Attention | Op::Matmul, "out") => Some((M, N)),
        (Op::Argmax | Op::Sample, "logits") => Some((M, N)),
        _ => None,
    }
}

/// The problem of each step of `row` when a launch carries `problem`.
///
/// # Errors
/// An op this catalog does not have, sizes that contradict, or a size that
/// nothing determines.
pub fn step_problems(row: &Row, problem: &Problem, scalars: &[u8]) -> Result<Vec<Problem>, OracleError> {
    let ops = row_ops(row)?;
    let at = row.problem_step as usize;
    let Some(&main) = ops.get(at) else {
        return Err(OracleError::size(Op::Copy, format!("problem_step {at} of {} steps", ops.len())));
    };
    if ops.len() == 1 {
        return Ok(vec![*problem]);
    }
    let mut letters = Letters::new(&ops);
    for (letter, value) in [(M, problem.m), (N, problem.n), (K, problem.k)] {
        letters.set(main, at, letter, value)?;
    }
    for (step, &op) in ops.iter().enumerate() {
        if let Some((query, key)) = widths(&ops, step, scalars) {
            letters.set(op, step, N, query)?;
            if op == Op::RopeAppend {
                letters.set(op, step, K, key)?;
            }
        }
    }
    let mut seen: Vec<(Wire, usize, Letter, Letter)> = Vec::new();
    for (step, (&op, spec)) in ops.iter().zip(row.steps.iter()).enumerate() {
        for (wire, operand) in spec.operands.iter().zip(contract::operands(op)) {
            let Some((rows, width)) = extent(op, operand.name) else { continue };
            match seen.iter().find(|(other, ..)| other == wire) {
                Some(&(_, other, other_rows, other_width)) => {
                    letters.tie(op, (other, other_rows), (step, rows))?;
                    letters.tie(op, (other, other_width), (step, width))?;
                }
                None => seen.push((*wire, step, rows, width)),
            }
        }
    }
    ops.iter()
        .enumerate()
        .map(|(step, &op)| {
            if step == at {
                return Ok(*problem);
            }
            let open =
                |letter: &str| OracleError::size(op, format!("nothing determines {letter} of step {step}"));
            let needs_n = !matches!(op, Op::Norm | Op::Pack | Op::Add | Op::Glu | Op::Advance);
            let needs_k = !matches!(op, Op::Argmax | Op::Sample | Op::Advance);
            let aside = (op == Op::Matmul && problem.aux != 0).then_some(problem.aux);
            let m = letters.get(step, M).unwrap_or(problem.m);
            let n = letters.get(step, N).or(aside);
            let k = letters.get(step, K);
            Ok(Problem {
                m,
                n: if needs_n { n.ok_or_else(|| open("N"))? } else { 0 },
                k: if needs_k { k.ok_or_else(|| open("K"))? } else { 0 },
                batch: problem.batch,
                aux: problem.aux,
            })
        })
        .collect()
}

/// The ops of a row's steps.
///
/// # Errors
/// An op this catalog does not have.
pub fn row_ops(row: &Row) -> Result<Vec<Op>, OracleError> {
    let op = |id| {
        Op::from_id(id).ok_or_else(|| OracleError::size(Op::Copy, format!("op {} of a row is unknown", id.0)))
    };
    row.steps.iter().map(|step| op(step.op)).collect()
}

fn widths(ops: &[Op], step: usize, scalars: &[u8]) -> Option<(u64, u64)> {
    let (heads, heads_kv, dim) = match ops.get(step)? {
        Op::RopeAppend => {
            let block: RopeAppendScalars = scalars::read_step(ops, step, scalars)?;
            (block.n_head, block.n_head_kv, block.head_dim)
        }
        Op::Attention => {
            let block: AttentionScalars = scalars::read_step(ops, step, scalars)?;
            (block.n_head, block.n_head_kv, block.head_dim)
        }
        _ => return None,
    };
    Some((u64::from(heads) * u64::from(dim), u64::from(heads_kv) * u64::from(dim)))
}

/// Sizes known to be equal, and their value once one of them has it.
struct Letters {
    class: Vec<usize>,
    value: Vec<Option<u64>>,
}

impl Letters {
    fn new(ops: &[Op]) -> Letters {
        Letters { class: (0..ops.len() * 3).collect(), value: vec![None; ops.len() * 3] }
    }

    fn get(&self, step: usize, letter: Letter) -> Option<u64> {
        self.value[self.class[step * 3 + letter as usize]]
    }

    fn set(&mut self, op: Op, step: usize, letter: Letter, value: u64) -> Result<(), OracleError> {
        let slot = &mut self.value[self.class[step * 3 + letter as usize]];
        match *slot {
            Some(known) if known != value => {
                Err(OracleError::size(op, format!("step {step} has a size of {known} and of {value}")))
            }
            _ => {
                *slot = Some(value);
                Ok(())
            }
        }
    }

    fn tie(&mut self, op: Op, a: (usize, Letter), b: (usize, Letter)) -> Result<(), OracleError> {
        if let Some(value) = self.get(b.0, b.1) {
            self.set(op, a.0, a.1, value)?;
        }
        let (into, from) = (self.class[a.0 * 3 + a.1 as usize], self.class[b.0 * 3 + b.1 as usize]);
        self.class.iter_mut().filter(|class| **class == from).for_each(|class| *class = into);
        Ok(())
    }
}
