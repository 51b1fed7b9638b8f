//! The ops of a segment with concrete problems: what rows are matched against.
//!
//! It begins as a copy of the plan's ops, gains the token tail where asked, and then the packs that
//! chosen rows want. Values carry the layout they are arranged in.

use cajeta_abi::{LayoutId, Problem};
use cajeta_catalog::op::{Op, attr};
use cajeta_catalog::scalars::AdvanceScalars;
use cajeta_catalog::state::{Section, StepLayout};
use cajeta_model_arch::plan::{Half, Plan, PlanOp, PlanOperand, Rows, Scalars, TensorId};

/// A value of the sequence: an index into [`Sequence::values`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SeqValue(pub usize);

/// A value's shape and layout.
#[derive(Clone, Debug)]
pub struct ValueInfo {
    /// For people.
    pub name: String,
    /// Rows at this segment's sizes.
    pub rows: u64,
    /// Values per row.
    pub width: u64,
    /// Plain f32 rows, or a layout of the backend's own.
    pub layout: LayoutId,
}

/// One operand of a sequence op.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SeqOperand {
    /// A value.
    Value(SeqValue),
    /// A tensor of the plan.
    Tensor(TensorId),
    /// A section of the step state.
    State(Section),
    /// All of the step state.
    WholeState,
    /// A K/V plane.
    Plane(u32, Half),
    /// An absent optional operand.
    Absent,
}

/// One op with everything concrete.
#[derive(Clone, Debug)]
pub struct SeqOp {
    /// What it computes.
    pub op: Op,
    /// Its attributes.
    pub attrs: u64,
    /// Its layer, for messages.
    pub layer: Option<u32>,
    /// Its problem.
    pub problem: Problem,
    /// Its scalar block.
    pub scalars: Vec<u8>,
    /// Its operands in the catalog's order.
    pub operands: Vec<SeqOperand>,
}

/// Which ops of the plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Segment {
    /// Embedding and layers.
    Body,
    /// From the wanted rows to the logits.
    Tail,
    /// From the wanted rows to the logits, the drawn token and the next state.
    TailToken,
    /// Everything: a generating step.
    Step,
}

/// The sizes a segment is lowered for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Sizes {
    /// Rows of the step.
    pub rows: u32,
    /// Rows whose logits are wanted.
    pub out_rows: u32,
    /// Sequences of the step.
    pub seqs: u32,
    /// Context the attention must reach: at least every sequence's length after the step.
    pub context: u32,
    /// Where the state's sections lie.
    pub state: StepLayout,
}

/// The ops of a segment.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Ops in order.
    pub ops: Vec<SeqOp>,
    /// Every value named by an op; the plan's come first, with their own numbers.
    pub values: Vec<ValueInfo>,
}

impl Sequence {
    /// The ops of a segment of a plan at the given sizes.
    pub fn new(plan: &Plan, segment: Segment, sizes: &Sizes) -> Sequence {
        let values = plan.values.iter().map(|value| ValueInfo {
            name: value.name.clone(),
            rows: rows(value.rows, sizes),
            width: value.width,
            layout: LayoutId::PLAIN,
        });
        let mut sequence = Sequence { ops: Vec::new(), values: values.collect() };
        let range = match segment {
            Segment::Body => 0..plan.tail,
            Segment::Tail | Segment::TailToken => plan.tail..plan.ops.len(),
            Segment::Step => 0..plan.ops.len(),
        };
        sequence.ops.extend(plan.ops[range].iter().map(|op| concrete(op, sizes)));
        if matches!(segment, Segment::TailToken | Segment::Step) {
            sequence.push_token_tail(plan, sizes);
        }
        sequence
    }

    /// A name for an op in messages: the op and the value it writes.
    pub fn describe(&self, op: &SeqOp) -> String {
        let written = op.operands.iter().rev().find_map(|operand| match operand {
            SeqOperand::Value(id) => Some(self.values[id.0].name.as_str()),
            _ => None,
        });
        format!("{} {}", op.op.name(), written.unwrap_or("")).trim_end().to_string()
    }

    fn push_token_tail(&mut self, plan: &Plan, sizes: &Sizes) {
        let logits = SeqOperand::Value(SeqValue(plan.logits.0 as usize));
        let vocabulary = plan.value(plan.logits).width;
        let (sampling, sampled) = (SeqOperand::State(Section::Sampling), SeqOperand::State(Section::Sampled));
        self.ops.push(SeqOp {
            op: Op::Sample,
            attrs: 0,
            layer: None,
            problem: Problem { m: u64::from(sizes.out_rows), n: vocabulary, ..Problem::default() },
            scalars: Vec::new(),
            operands: vec![logits, sampling, sampled],
        });
        let state = sizes.state;
        let scalars = AdvanceScalars {
            max_rows: state.max_rows,
            max_seqs: state.max_seqs,
            max_blocks: state.max_blocks,
            reserved: 0,
        };
        self.ops.push(SeqOp {
            op: Op::Advance,
            attrs: 0,
            layer: None,
            problem: Problem { m: u64::from(sizes.seqs), ..Problem::default() },
            scalars: bytemuck::bytes_of(&scalars).to_vec(),
            operands: vec![SeqOperand::WholeState],
        });
    }
}

fn rows(rows: Rows, sizes: &Sizes) -> u64 {
    u64::from(match rows {
        Rows::Step => sizes.rows,
        Rows::Out => sizes.out_rows,
    })
}

fn concrete(op: &PlanOp, sizes: &Sizes) -> SeqOp {
    let m = rows(op.rows, sizes).saturating_mul(u64::from(op.per_row));
    let mut problem = Problem { m, n: op.n, k: op.k, batch: 0, aux: 0 };
    match op.op {
        Op::Attention => {
            problem.k = u64::from(sizes.context);
            problem.batch = u64::from(sizes.seqs);
        }
        Op::RopeAppend => problem.batch = u64::from(sizes.seqs),
        Op::Copy if op.attrs & attr::INDEXED != 0 => problem.n = u64::from(sizes.rows),
        _ => {}
    }
    let scalars = match op.scalars {
        Scalars::None => Vec::new(),
        Scalars::Embed(block) => bytemuck::bytes_of(&block).to_vec(),
        Scalars::Norm(block) => bytemuck::bytes_of(&block).to_vec(),
        Scalars::Matmul(block) => bytemuck::bytes_of(&block).to_vec(),
        Scalars::Glu(block) => bytemuck::bytes_of(&block).to_vec(),
        Scalars::RopeAppend(mut block) => {
            block.max_blocks = sizes.state.max_blocks;
            bytemuck::bytes_of(&block).to_vec()
        }
        Scalars::Attention(mut block) => {
            block.max_blocks = sizes.state.max_blocks;
            bytemuck::bytes_of(&block).to_vec()
        }
    };
    let operands = op.operands.iter().map(|operand| match *operand {
        PlanOperand::Value(id) => SeqOperand::Value(SeqValue(id.0 as usize)),
        PlanOperand::Tensor(id) => SeqOperand::Tensor(id),
        PlanOperand::State(section) => SeqOperand::State(section),
        PlanOperand::Plane { layer, half } => SeqOperand::Plane(layer, half),
        PlanOperand::Absent => SeqOperand::Absent,
    });
    SeqOp { op: op.op, attrs: op.attrs, layer: op.layer, problem, scalars, operands: operands.collect() }
}
