//! A lowered segment: launches with every argument placed, ready to be prepared as a list.

use std::collections::HashMap;
use std::ops::Range;

use cajeta_abi::{Access, FormatId, LayoutId, Problem, Shape};
use cajeta_catalog::contract;
use cajeta_catalog::op::Op;
use cajeta_model_arch::plan::{Half, Plan};

use super::LowerError;
use super::arena::{Life, place};
use super::cover::{Choice, weight_key};
use super::pattern::Bound;
use super::residents::WeightKey;
use super::sequence::{SeqOp, SeqOperand, SeqValue, Sequence, Sizes};
use crate::route::Registry;

/// Where a launch argument lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the arena.
    Arena(Range<u64>),
    /// In the buffer of the last hidden state.
    Hidden(Range<u64>),
    /// A resident weight.
    Weight(WeightKey),
    /// In the step state.
    State(Range<u64>),
    /// A whole K/V plane.
    Plane(u32, Half),
    /// Nowhere: an absent optional operand.
    Absent,
}

/// One launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Placed {
    /// Index of the row in the registry.
    pub row: usize,
    /// Parts of the reduction.
    pub split: u32,
    /// The problem of the row's problem step.
    pub problem: Problem,
    /// One per `Row::args`.
    pub args: Vec<Place>,
    /// The steps' scalar blocks.
    pub scalars: Vec<u8>,
    /// Scratch bytes.
    pub scratch: u64,
    /// Semaphore bytes.
    pub semaphores: u64,
    /// What it computes, for messages: the op and the value written.
    pub what: String,
    /// Values it reads and did not write itself.
    pub reads: Vec<SeqValue>,
    /// Values it writes, those that a fusion keeps to itself too.
    pub writes: Vec<SeqValue>,
}

impl Placed {
    /// The launch over the row of sequence `at` of `of`, whose values have a row for each: an equal part
    /// of every value, and of what belongs to no sequence all.
    fn row_of(&self, at: u64, of: u64) -> Placed {
        let row = |range: &Range<u64>| {
            let bytes = (range.end - range.start) / of;
            let start = range.start + at * bytes;
            start..start + bytes
        };
        let args = self.args.iter().map(|place| match place {
            Place::Arena(range) => Place::Arena(row(range)),
            Place::Hidden(range) => Place::Hidden(row(range)),
            other => other.clone(),
        });
        Placed { args: args.collect(), ..self.clone() }
    }
}

/// A lowered segment.
#[derive(Clone, Debug)]
pub struct Program {
    /// Launches in order.
    pub launches: Vec<Placed>,
    /// Bytes of the arena.
    pub arena: u64,
    /// Bytes of scratch, shared by all launches.
    pub scratch: u64,
    /// Bytes of semaphores, shared by all launches.
    pub semaphores: u64,
    /// Where the logits are, if the segment computes them.
    pub logits: Option<Range<u64>>,
}

/// Places the arguments of chosen rows.
pub(super) fn assemble(
    registry: &dyn Registry,
    plan: &Plan,
    sequence: &Sequence,
    sizes: &Sizes,
    choices: &[Choice],
) -> Result<Program, LowerError> {
    let values = ValuePlaces::new(registry, plan, sequence, choices)?;
    let rows = registry.rows();
    let mut launches = Vec::with_capacity(choices.len());
    for choice in choices {
        let row = &rows[choice.row];
        let ops = &sequence.ops[choice.start..choice.start + choice.len];
        let mut problem = ops.get(row.problem_step as usize).unwrap_or(&ops[0]).problem;
        if choice.launches > 1 {
            problem.m = 1;
        }
        // Sequences are those of whichever op of a fusion has them: a projection has none of its own.
        problem.batch = ops.iter().map(|op| op.problem.batch).max().unwrap_or(0);
        // What a second projection writes, where nothing else of the fusion says it.
        let second = ops.iter().filter(|op| op.op == Op::Matmul).nth(1);
        problem.aux = problem.aux.max(second.map_or(0, |op| op.problem.n));
        let what = sequence.describe(&ops[ops.len() - 1]);
        let (reads, writes) = values_of(ops);
        let scalars: Vec<u8> = ops.iter().flat_map(|op| op.scalars.iter().copied()).collect();
        let geometry = registry.geometry(choice.row, &problem, &scalars).map_err(|text| {
            LowerError::Backend { what: format!("the geometry of {} for {what}", row.name), text }
        })?;
        let place = |(bound, spec): (&Bound, &cajeta_abi::ArgSpec)| {
            if let Some(key) = weight_key(bound, spec.layout) {
                return Place::Weight(key);
            }
            match bound {
                Bound::One(SeqOperand::Value(value)) => values.place(*value),
                Bound::One(SeqOperand::State(section)) => Place::State(sizes.state.range(*section)),
                Bound::One(SeqOperand::WholeState) => Place::State(0..sizes.state.total_bytes()),
                Bound::One(SeqOperand::Plane(layer, half)) => Place::Plane(*layer, *half),
                Bound::One(SeqOperand::Absent | SeqOperand::Tensor(_)) | Bound::Packed(_) => Place::Absent,
            }
        };
        let whole = Placed {
            row: choice.row,
            split: match ops.iter().any(|op| op.op == Op::Attention) {
                true => registry.attention_parts(&geometry),
                false => geometry.split_min.max(1),
            },
            problem,
            args: choice.args.iter().zip(row.args.iter()).map(place).collect(),
            scalars,
            scratch: geometry.scratch_bytes,
            semaphores: geometry.semaphore_bytes,
            what,
            reads,
            writes,
        };
        launches.extend((0..choice.launches).map(|sequence| whole.row_of(sequence, choice.launches)));
    }
    let logits = SeqValue(plan.logits.0 as usize);
    Ok(Program {
        arena: values.total,
        scratch: launches.iter().map(|launch| launch.scratch).max().unwrap_or(0),
        semaphores: launches.iter().map(|launch| launch.semaphores).max().unwrap_or(0),
        logits: match values.place_of.get(&logits) {
            Some(Place::Arena(range)) => Some(range.clone()),
            _ => None,
        },
        launches,
    })
}

/// What ops read from others, and what they write.
fn values_of(ops: &[SeqOp]) -> (Vec<SeqValue>, Vec<SeqValue>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for op in ops {
        for (operand, contract) in op.operands.iter().zip(contract::operands(op.op)) {
            let SeqOperand::Value(value) = *operand else { continue };
            if contract.access != Access::WRITE && !writes.contains(&value) && !reads.contains(&value) {
                reads.push(value);
            }
            if contract.access != Access::READ && !writes.contains(&value) {
                writes.push(value);
            }
        }
    }
    (reads, writes)
}

/// Where each value that a launch names lies.
struct ValuePlaces {
    place_of: HashMap<SeqValue, Place>,
    total: u64,
}

impl ValuePlaces {
    fn new(
        registry: &dyn Registry,
        plan: &Plan,
        sequence: &Sequence,
        choices: &[Choice],
    ) -> Result<ValuePlaces, LowerError> {
        let hidden = SeqValue(plan.hidden.0 as usize);
        let mut index_of: HashMap<SeqValue, usize> = HashMap::new();
        let mut ids = Vec::new();
        let mut lives: Vec<Life> = Vec::new();
        let mut sizes = Vec::new();
        for (launch, choice) in choices.iter().enumerate() {
            let row = &registry.rows()[choice.row];
            for (bound, spec) in choice.args.iter().zip(row.args.iter()) {
                let Bound::One(SeqOperand::Value(value)) = bound else { continue };
                if *value == hidden {
                    continue;
                }
                let padding = u64::from(spec.padding);
                let index = match index_of.get(value) {
                    Some(&index) => index,
                    None => {
                        let bytes = value_bytes(registry, sequence, *value)?;
                        index_of.insert(*value, lives.len());
                        ids.push(*value);
                        sizes.push(bytes);
                        lives.push(Life { first: launch, last: launch, bytes, in_place_of: None });
                        lives.len() - 1
                    }
                };
                lives[index].last = launch;
                lives[index].bytes = lives[index].bytes.max(sizes[index] + padding);
            }
        }
        in_place(registry, choices, &index_of, &mut lives);
        // The logits are read by the host once the segment is done.
        if let Some(&index) = index_of.get(&SeqValue(plan.logits.0 as usize)) {
            lives[index].last = choices.len();
        }
        let (offsets, total) = place(&lives);
        let mut place_of: HashMap<SeqValue, Place> = HashMap::new();
        for (index, value) in ids.into_iter().enumerate() {
            place_of.insert(value, Place::Arena(offsets[index]..offsets[index] + sizes[index]));
        }
        place_of.insert(hidden, Place::Hidden(0..value_bytes(registry, sequence, hidden)?));
        Ok(ValuePlaces { place_of, total })
    }

    fn place(&self, value: SeqValue) -> Place {
        self.place_of.get(&value).cloned().unwrap_or(Place::Absent)
    }
}

/// Lets outputs take over the place of inputs that die with them, where the row computes in place.
fn in_place(
    registry: &dyn Registry,
    choices: &[Choice],
    index_of: &HashMap<SeqValue, usize>,
    lives: &mut [Life],
) {
    for (launch, choice) in choices.iter().enumerate() {
        let row = &registry.rows()[choice.row];
        let life_at = |position: usize| match choice.args.get(position) {
            Some(Bound::One(SeqOperand::Value(value))) => index_of.get(value).copied(),
            _ => None,
        };
        for (position, spec) in row.args.iter().enumerate() {
            let Ok(alias) = usize::try_from(spec.alias) else { continue };
            let (Some(output), Some(input)) = (life_at(position), life_at(alias)) else { continue };
            let dies = lives[input].last == launch && lives[output].first == launch;
            if output != input && dies && lives[output].bytes == lives[input].bytes {
                lives[output].in_place_of = Some(input);
            }
        }
    }
}

fn value_bytes(registry: &dyn Registry, sequence: &Sequence, value: SeqValue) -> Result<u64, LowerError> {
    let info = &sequence.values[value.0];
    if info.layout == LayoutId::PLAIN {
        let bytes = info.rows.checked_mul(info.width).and_then(|values| values.checked_mul(4));
        return bytes.ok_or_else(|| LowerError::TooLarge(info.name.clone()));
    }
    let shape = Shape { format: FormatId::NONE, rows: info.rows, width: info.width };
    registry.layout_bytes(info.layout, &[shape]).map_err(|text| LowerError::Backend {
        what: format!("the size of {} in layout {}", info.name, info.layout.0),
        text,
    })
}
