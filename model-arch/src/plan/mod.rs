//! The plan: the ops of one step in forward order, with tensor names and symbolic rows.
//!
//! A plan says what a model computes and nothing about how: no device, no layout, no kernel. Values
//! are written once; an op that changes its operand in place (`rope_append` and its query) names the
//! same value as input and output, which the catalog's contract makes plain.

mod builder;
mod error;

pub use builder::Builder;
pub use error::{PlanError, PlanProblem};

use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_catalog::scalars::{
    AttentionScalars, EmbedScalars, GluScalars, MatmulScalars, NormScalars, RopeAppendScalars,
};
use cajeta_catalog::state::Section;

use crate::config::ModelConfig;
use crate::gguf::GgufFile;
use crate::models;

/// A value between ops: `rows` rows of `width` f32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ValueId(pub u32);

/// A tensor of the file, as an index into [`Plan::tensors`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TensorId(pub u32);

/// How many rows a value or an op has in a step.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rows {
    /// Every row of the step.
    Step,
    /// The rows whose logits are wanted: one per sequence of a generating step.
    Out,
}

/// A value's name (for people) and shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Value {
    /// Where it comes from, for instance `blk.3.ffn_norm`.
    pub name: String,
    /// How many rows.
    pub rows: Rows,
    /// Values in a row.
    pub width: u64,
}

/// A tensor the plan reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanTensor {
    /// Its name in the file; a part of a fused tensor adds its rows: `blk.0.attn_qkv.weight[0..64]`.
    pub name: String,
    /// How it is stored.
    pub format: Format,
    /// Output features, table rows, or 1 for a vector.
    pub rows: u64,
    /// Values in a row.
    pub width: u64,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Which of a layer's two planes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Half {
    /// Keys.
    K,
    /// Values.
    V,
}

/// One operand of an op, in the catalog's order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PlanOperand {
    /// A value of the plan.
    Value(ValueId),
    /// A tensor of the file.
    Tensor(TensorId),
    /// A section of the step state.
    State(Section),
    /// A plane of a layer's K/V cache.
    Plane {
        /// The layer.
        layer: u32,
        /// Keys or values.
        half: Half,
    },
    /// An optional operand that is not there.
    Absent,
}

/// The scalars of an op. Block table lengths are zero here: the engine knows them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalars {
    /// The op has none.
    None,
    /// Of an embed.
    Embed(EmbedScalars),
    /// Of a norm.
    Norm(NormScalars),
    /// Of a matmul.
    Matmul(MatmulScalars),
    /// Of a rope_append.
    RopeAppend(RopeAppendScalars),
    /// Of an attention.
    Attention(AttentionScalars),
    /// Of a glu.
    Glu(GluScalars),
}

/// One op of a step.
#[derive(Clone, PartialEq, Debug)]
pub struct PlanOp {
    /// What it computes.
    pub op: Op,
    /// Its attributes (`cajeta_catalog::op::attr`).
    pub attrs: u64,
    /// Its layer; absent before the first and after the last.
    pub layer: Option<u32>,
    /// Rows it works on (M of its problem, times [`per_row`](Self::per_row)).
    pub rows: Rows,
    /// How many rows of its problem make one row of its values: 1, or the number of heads where an op
    /// works on each head by itself.
    pub per_row: u32,
    /// N of its problem, as the catalog defines it for the op.
    pub n: u64,
    /// K of its problem.
    pub k: u64,
    /// Its scalars.
    pub scalars: Scalars,
    /// Its operands in the catalog's order.
    pub operands: Vec<PlanOperand>,
}

/// The K/V heads of one layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KvShape {
    /// K/V heads.
    pub n_head_kv: u32,
    /// Elements per head.
    pub head_dim: u32,
    /// Positions a query of this layer sees, its own included; 0 for all. Older ones are never read.
    pub window: u32,
}

/// What a model computes in one step.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Every value, indexed by [`ValueId`].
    pub values: Vec<Value>,
    /// Every tensor read, indexed by [`TensorId`].
    pub tensors: Vec<PlanTensor>,
    /// The ops in forward order.
    pub ops: Vec<PlanOp>,
    /// Index of the first op of the tail: from there on only [`Rows::Out`] rows are computed.
    pub tail: usize,
    /// The last hidden state of all rows: what the tail reads.
    pub hidden: ValueId,
    /// The logits, `[out rows][vocabulary]`.
    pub logits: ValueId,
    /// K/V shape per layer.
    pub kv: Vec<KvShape>,
}

impl Plan {
    /// The plan of a model, with every tensor it needs found in the file and every tensor of the
    /// file used.
    ///
    /// # Errors
    /// When a tensor is missing, has another shape, or is one the architecture does not know.
    pub fn build(config: &ModelConfig, file: &GgufFile) -> Result<Plan, PlanError> {
        Plan::build_for_context(config, file, config.n_ctx_train)
    }

    /// As [`build`](Self::build), for a context that may be shorter than the trained one. It matters
    /// where a model has other rotary factors for long contexts than for short ones.
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_for_context(config: &ModelConfig, file: &GgufFile, ctx: u32) -> Result<Plan, PlanError> {
        models::build(config, file, ctx)
    }

    /// The value behind an id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// The tensor behind an id.
    pub fn tensor(&self, id: TensorId) -> &PlanTensor {
        &self.tensors[id.0 as usize]
    }

    /// Bytes of weights a single-row step reads: every tensor but the embedding table, of which one
    /// row is read (all of it, when the output head shares it).
    pub fn step_bytes(&self) -> u64 {
        let mut read = vec![false; self.tensors.len()];
        for op in self.ops.iter().filter(|op| op.op != Op::Embed) {
            for operand in &op.operands {
                if let PlanOperand::Tensor(id) = operand {
                    read[id.0 as usize] = true;
                }
            }
        }
        self.tensors.iter().zip(read).filter(|(_, read)| *read).map(|(tensor, _)| tensor.bytes).sum()
    }
}
