//! Fills operands: real-valued activations, valid blocks, state that makes sense.

use bytemuck::bytes_of;
use cajeta_catalog::contract::{Role, operands};
use cajeta_catalog::kv;
use cajeta_catalog::op::Op;
use cajeta_catalog::oracle::compose::StepCall;
use cajeta_catalog::oracle::operand_bytes;
use cajeta_catalog::quant::Format;
use cajeta_catalog::scalars::{AttentionScalars, RopeAppendScalars};
use cajeta_catalog::state::SampleParams;
use half::f16;

use crate::case::{Case, Kind, Why};
use crate::random::Random;
use crate::weights;

/// Which positions of which sequences a step works on, shared by its operands.
#[derive(Clone, Debug)]
struct Paging {
    /// First row of each sequence, and the end.
    seq_start: Vec<u32>,
    kv_len: Vec<u32>,
    tables: Vec<u32>,
    blocks: u64,
}

/// Fills the operands of one case.
pub(crate) struct Filling<'a> {
    random: &'a mut Random,
    paging: Option<Paging>,
}

impl<'a> Filling<'a> {
    pub(crate) fn new(random: &'a mut Random) -> Filling<'a> {
        Filling { random, paging: None }
    }

    /// Bytes of one operand a step reads (or reads and writes).
    pub(crate) fn operand(
        &mut self,
        step: &StepCall,
        position: usize,
        format: Option<Format>,
    ) -> Result<Vec<u8>, Why> {
        let Some(operand) = operands(step.op).get(position) else { return Err("no such operand".to_owned()) };
        let problem = &step.problem;
        if let Some(format) = format.filter(|_| operand.role == Role::Weight) {
            let rows = match operand.name {
                "source2" => problem.m,
                "source3" => problem.aux,
                _ => problem.n,
            };
            return weights::blocks(format, rows, problem.k, self.random)
                .ok_or_else(|| format!("this suite has no recipe for blocks of {format}"));
        }
        let bytes = operand_bytes(step.op, problem, &step.scalars, format, position)
            .map_err(|error| error.to_string())?;
        let count = bytes.unwrap_or(0) / 4;
        let random = &mut *self.random;
        Ok(match (step.op, operand.name) {
            (Op::Embed, "tokens") | (Op::Copy, "index") => {
                let index = |_| {
                    if problem.m > 1 && random.chance(10) {
                        return random.pick(&[problem.n as u32, u32::MAX]).unwrap_or(u32::MAX);
                    }
                    random.below(problem.n) as u32
                };
                words((0..count).map(index))
            }
            (Op::Argmax | Op::Sample, "logits") => logits(count, problem.n, random),
            (Op::Sample, "params") => {
                (0..problem.m).flat_map(|_| bytes_of(&params(random)).to_vec()).collect()
            }
            (Op::Advance, _) => (0..count).flat_map(|_| (random.next() as u32).to_le_bytes()).collect(),
            (Op::Norm, "weight") => floats((0..count).map(|_| random.between(-0.5, 1.5))),
            // Small rows, too, so that the constant in the root counts.
            (Op::Norm, "x") => {
                let size = random.pick(&[1.0, 30.0, 0.01]).unwrap_or(1.0);
                floats((0..count).map(|_| random.normal() * size))
            }
            (Op::RopeAppend, "factors") => floats((0..count).map(|_| random.between(1.0, 8.0))),
            (Op::RopeAppend | Op::Attention, name) => match operand.role {
                Role::Activation | Role::Weight => floats((0..count).map(|_| random.normal())),
                _ => self.paged(step, name)?,
            },
            // Gates reach both tails of their activation.
            (Op::Glu, "gate") => floats((0..count).map(|_| random.normal() * 3.0)),
            _ => floats((0..count).map(|_| random.normal() + 0.1)),
        })
    }

    /// State and planes of `rope_append` and `attention`.
    fn paged(&mut self, step: &StepCall, name: &str) -> Result<Vec<u8>, Why> {
        let scalars = || "the scalars are not those of the op".to_owned();
        let (heads_kv, head_dim, max_blocks) = if step.op == Op::RopeAppend {
            let block: RopeAppendScalars =
                bytemuck::try_pod_read_unaligned(&step.scalars).map_err(|_| scalars())?;
            (block.n_head_kv, block.head_dim, block.max_blocks)
        } else {
            let block: AttentionScalars =
                bytemuck::try_pod_read_unaligned(&step.scalars).map_err(|_| scalars())?;
            (block.n_head_kv, block.head_dim, block.max_blocks)
        };
        let random = &mut *self.random;
        let paging = match &self.paging {
            Some(paging) => paging,
            None => self.paging.insert(Paging::draw(step, max_blocks, random)),
        };
        let rows = || {
            (0u32..)
                .zip(paging.seq_start.windows(2))
                .flat_map(|(seq, ends)| (ends[0]..ends[1]).map(move |row| (seq, row - ends[0])))
        };
        let rows_of = |seq: u32| paging.seq_start[seq as usize + 1] - paging.seq_start[seq as usize];
        Ok(match name {
            "seq_start" => words(paging.seq_start.iter().copied()),
            "kv_len" => words(paging.kv_len.iter().copied()),
            "row_seq" => words(rows().map(|(seq, _)| seq)),
            "positions" => words(rows().map(|(seq, row)| paging.kv_len[seq as usize] - rows_of(seq) + row)),
            "block_tables" => words(paging.tables.iter().copied()),
            _ => {
                let elements = paging.blocks * kv::block_elements(heads_kv, head_dim);
                let mut plane = halves((0..elements).map(|_| random.normal()));
                if step.op == Op::Attention {
                    paging.poison_unseen(&mut plane, heads_kv, head_dim, max_blocks);
                }
                plane
            }
        })
    }
}

impl Paging {
    fn draw(step: &StepCall, max_blocks: u32, random: &mut Random) -> Paging {
        let (rows, seqs) =
            (step.problem.m as u32, (step.problem.batch.max(1) as u32).min(step.problem.m as u32));
        // Each sequence gets a row, the rest fall anywhere.
        let mut counts = vec![1u32; seqs as usize];
        for _ in seqs..rows {
            counts[random.below(u64::from(seqs)) as usize] += 1;
        }
        let mut seq_start = vec![0];
        for count in &counts {
            seq_start.push(seq_start.last().unwrap_or(&0) + count);
        }
        let limit = match step.op {
            // Appending goes to the end of a long cache now and then.
            Op::RopeAppend => max_blocks * kv::BLOCK_POSITIONS,
            _ => (step.problem.k as u32).min(max_blocks * kv::BLOCK_POSITIONS),
        };
        let kv_len: Vec<u32> = counts
            .iter()
            .map(|&count| match random.below(3) {
                0 => limit.max(count),
                1 => count.min(limit),
                _ => random.within(u64::from(count), u64::from(limit.max(count))) as u32,
            })
            .collect();
        let used = |len: u32| len.div_ceil(kv::BLOCK_POSITIONS).min(max_blocks);
        let total: u32 = kv_len.iter().map(|&len| used(len)).sum();
        let blocks = u64::from(total) + random.below(3);
        let mut order = random.permutation(blocks as usize).into_iter();
        // Entries past a sequence's length name no block.
        let mut tables = vec![u32::MAX; seqs as usize * max_blocks as usize];
        for (table, &len) in tables.chunks_exact_mut(max_blocks.max(1) as usize).zip(&kv_len) {
            for (entry, block) in table.iter_mut().take(used(len) as usize).zip(&mut order) {
                *entry = block;
            }
        }
        Paging { seq_start, kv_len, tables, blocks: blocks.max(1) }
    }

    /// Puts NaN wherever no sequence has a position: nothing may look there.
    fn poison_unseen(&self, plane: &mut [u8], heads_kv: u32, head_dim: u32, max_blocks: u32) {
        let mut seen = vec![false; plane.len() / 2];
        for (table, &len) in self.tables.chunks_exact(max_blocks.max(1) as usize).zip(&self.kv_len) {
            for position in 0..len {
                let Some(&block) = table.get((position / kv::BLOCK_POSITIONS) as usize) else { continue };
                for head in 0..heads_kv {
                    let slot = position % kv::BLOCK_POSITIONS;
                    let first = kv::element(block, head, slot, heads_kv, head_dim) as usize;
                    if let Some(range) = seen.get_mut(first..first + head_dim as usize) {
                        range.fill(true);
                    }
                }
            }
        }
        for (element, _) in plane.as_chunks_mut::<2>().0.iter_mut().zip(seen).filter(|(_, seen)| !seen) {
            *element = [0xFF; 2];
        }
    }
}

fn logits(count: u64, width: u64, random: &mut Random) -> Vec<u8> {
    let values: Vec<f32> = (0..count)
        .map(|_| match random.below(40) {
            0 => f32::NAN,
            1 => f32::NEG_INFINITY,
            // Repeated values make ties.
            2 | 3 => random.below(4) as f32 + 4.0,
            _ => random.normal() * 2.5,
        })
        .collect();
    let mut rows = values;
    if random.chance(10)
        && let Some(row) = rows.chunks_exact_mut(width.max(1) as usize).next()
    {
        row.fill(f32::NAN);
    }
    floats(rows)
}

fn params(random: &mut Random) -> SampleParams {
    SampleParams {
        temperature: random.pick(&[0.0, -1.0, 0.3, 0.8, 1.0, 2.0]).unwrap_or(1.0),
        top_p: random.pick(&[1.0, 1.0, 0.95, 0.5, 0.1]).unwrap_or(1.0),
        min_p: random.pick(&[0.0, 0.0, 0.05, 0.3]).unwrap_or(0.0),
        top_k: random.pick(&[0, 1, 5, 40, 256, 100_000]).unwrap_or(0),
        seed_lo: random.next() as u32,
        seed_hi: random.next() as u32,
        counter: random.next() as u32,
        reserved: 0,
    }
}

/// New values for the plain activations a case reads, everything else as it is.
pub(crate) fn refill(case: &mut Case, random: &mut Random) {
    let slots: Vec<usize> = case
        .steps
        .iter()
        .flat_map(|step| step.operands.iter().zip(operands(step.op)))
        .filter(|(_, operand)| operand.role == Role::Activation && operand.access == cajeta_abi::Access::READ)
        .filter_map(|(place, _)| match place {
            cajeta_catalog::oracle::compose::Place::Arg(slot) => Some(*slot),
            _ => None,
        })
        .collect();
    for slot in slots {
        if let Some(slot) = case.slots.get_mut(slot).filter(|slot| slot.kind == Kind::Plain) {
            let count = slot.bytes.len() as u64 / 4;
            slot.bytes = floats((0..count).map(|_| random.normal()));
        }
    }
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

fn words(values: impl IntoIterator<Item = u32>) -> Vec<u8> {
    values.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn halves(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(|value| f16::from_f32(value).to_le_bytes()).collect()
}
