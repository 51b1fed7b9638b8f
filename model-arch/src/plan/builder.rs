//! Builds a plan op by op, binding tensors by name and checking their shapes.

use std::collections::{HashMap, HashSet};

use cajeta_catalog::contract;
use cajeta_catalog::op::{Op, attr};
use cajeta_catalog::quant::Format;
use cajeta_catalog::scalars::{
    AttentionScalars, EmbedScalars, GluScalars, MatmulScalars, NormScalars, RopeAppendScalars,
};
use cajeta_catalog::state::Section;

use super::{
    Half, KvShape, Plan, PlanError, PlanOp, PlanOperand, PlanProblem, PlanTensor, Rows, Scalars, TensorId,
    Value, ValueId,
};
use crate::gguf::{GgufFile, TensorInfo};

/// Collects a plan. Architectures call its methods in forward order.
pub struct Builder<'a> {
    file: &'a GgufFile,
    plan: Plan,
    bound: HashMap<String, TensorId>,
    /// Tensors of the file that something of the plan reads, or that it may leave unread.
    known: HashSet<String>,
    layer: Option<u32>,
    rows: Rows,
}

impl<'a> Builder<'a> {
    /// An empty plan over a file.
    pub fn new(file: &'a GgufFile) -> Builder<'a> {
        let plan = Plan {
            values: Vec::new(),
            tensors: Vec::new(),
            ops: Vec::new(),
            tail: 0,
            hidden: ValueId(0),
            logits: ValueId(0),
            kv: Vec::new(),
        };
        Builder { file, plan, bound: HashMap::new(), known: HashSet::new(), layer: None, rows: Rows::Step }
    }

    /// Whether the file has a tensor.
    pub fn has(&self, name: &str) -> bool {
        self.file.tensor(name).is_some()
    }

    /// Ops from here on belong to a layer with this K/V shape.
    pub fn begin_layer(&mut self, layer: u32, kv: KvShape) {
        self.layer = Some(layer);
        self.plan.kv.push(kv);
    }

    /// A weight of `rows` output features (or table rows) by `width` input features.
    pub fn matrix(&mut self, name: &str, rows: u32, width: u32) -> Result<TensorId, PlanError> {
        self.bind(name, &[u64::from(width), u64::from(rows)])
    }

    /// Rows `first .. first + rows` of a weight that holds `of` rows: a part of a fused tensor. Rows
    /// lie one after another in every format, so a part is a tensor of its own.
    pub fn matrix_part(
        &mut self,
        name: &str,
        [first, rows, of]: [u32; 3],
        width: u32,
    ) -> Result<TensorId, PlanError> {
        let part = format!("{name}[{first}..{}]", first.saturating_add(rows));
        if let Some(id) = self.bound.get(&part) {
            return Ok(*id);
        }
        let tensor = self.checked(name, &[u64::from(width), u64::from(of)])?;
        let row_bytes = tensor.bytes / u64::from(of.max(1));
        let whole = bound(tensor);
        let tensor = PlanTensor {
            name: part.clone(),
            rows: u64::from(rows),
            offset: whole.offset + row_bytes * u64::from(first),
            bytes: row_bytes * u64::from(rows),
            ..whole
        };
        Ok(self.add_tensor(tensor, part))
    }

    /// Counts a tensor of the file as known without reading it.
    pub fn leave(&mut self, name: &str) {
        self.known.insert(name.into());
    }

    /// A vector of f32.
    pub fn vector(&mut self, name: &str, width: u32) -> Result<TensorId, PlanError> {
        let id = self.bind(name, &[u64::from(width)])?;
        match self.plan.tensor(id).format {
            Format::F32 => Ok(id),
            other => Err(self.fail(PlanProblem::VectorFormat { tensor: name.into(), found: other.name() })),
        }
    }

    /// A bias beside a weight, when the file has one.
    pub fn optional_vector(&mut self, name: &str, width: u32) -> Result<Option<TensorId>, PlanError> {
        if self.has(name) { self.vector(name, width).map(Some) } else { Ok(None) }
    }

    /// Rows of a table by token id, times `scale`: `[rows][width]`.
    pub fn embed(&mut self, table: TensorId, scale: f32) -> ValueId {
        let PlanTensor { rows, width, .. } = *self.plan.tensor(table);
        let out = self.value("embed", width);
        let attrs = if scale == 1.0 { 0 } else { attr::SCALE };
        let scalars = Scalars::Embed(EmbedScalars { scale, reserved: 0 });
        let operands =
            vec![PlanOperand::State(Section::Tokens), PlanOperand::Tensor(table), PlanOperand::Value(out)];
        self.push(Op::Embed, attrs, rows, width, scalars, operands);
        out
    }

    /// RMS norm of each row.
    pub fn norm(&mut self, name: &str, x: ValueId, weight: TensorId, eps: f32) -> ValueId {
        let width = self.plan.value(x).width;
        let out = self.value(name, width);
        let operands = vec![PlanOperand::Value(x), PlanOperand::Tensor(weight), PlanOperand::Value(out)];
        self.push(Op::Norm, 0, 0, width, Scalars::Norm(NormScalars { eps, offset: 0.0 }), operands);
        out
    }

    /// RMS norm of each head by itself, all with the same weight.
    pub fn head_norm(&mut self, name: &str, x: ValueId, weight: TensorId, eps: f32) -> ValueId {
        let out = self.norm(name, x, weight, eps);
        let (width, head_dim) = (self.plan.value(x).width, self.plan.tensor(weight).width.max(1));
        if let Some(op) = self.plan.ops.last_mut() {
            op.k = head_dim;
            op.per_row = u32::try_from(width / head_dim).unwrap_or(u32::MAX);
        }
        out
    }

    /// A projection, with its bias if there is one.
    pub fn matmul(&mut self, name: &str, x: ValueId, weight: TensorId, bias: Option<TensorId>) -> ValueId {
        let PlanTensor { rows, width, .. } = *self.plan.tensor(weight);
        let out = self.value(name, rows);
        let attrs = if bias.is_some() { attr::BIAS } else { 0 };
        let bias = bias.map_or(PlanOperand::Absent, PlanOperand::Tensor);
        let operands =
            vec![PlanOperand::Value(x), PlanOperand::Tensor(weight), bias, PlanOperand::Value(out)];
        let scalars = Scalars::Matmul(MatmulScalars { softcap: 0.0, reserved: 0 });
        self.push(Op::Matmul, attrs, rows, width, scalars, operands);
        out
    }

    /// The last projection's results pass through `cap * tanh(x / cap)`.
    pub fn cap(&mut self, softcap: f32) {
        if let Some(op) = self.plan.ops.last_mut().filter(|op| op.op == Op::Matmul) {
            op.attrs |= attr::SOFTCAP;
            op.scalars = Scalars::Matmul(MatmulScalars { softcap, reserved: 0 });
        }
    }

    /// Element-wise sum.
    pub fn add(&mut self, name: &str, a: ValueId, b: ValueId) -> ValueId {
        let width = self.plan.value(a).width;
        let out = self.value(name, width);
        let operands = [a, b, out].map(PlanOperand::Value).to_vec();
        self.push(Op::Add, 0, 0, width, Scalars::None, operands);
        out
    }

    /// Rotates `q` in place and appends `k` and `v` to the current layer's planes.
    pub fn rope_append(
        &mut self,
        [q, k, v]: [ValueId; 3],
        factors: Option<TensorId>,
        attrs: u64,
        scalars: RopeAppendScalars,
    ) {
        let layer = self.layer.unwrap_or(0);
        let attrs = attrs | if factors.is_some() { attr::ROPE_FACTORS } else { 0 };
        let operands = vec![
            PlanOperand::Value(q),
            PlanOperand::Value(k),
            PlanOperand::Value(v),
            PlanOperand::State(Section::Positions),
            PlanOperand::State(Section::RowSeq),
            PlanOperand::State(Section::BlockTables),
            factors.map_or(PlanOperand::Absent, PlanOperand::Tensor),
            PlanOperand::Plane { layer, half: Half::K },
            PlanOperand::Plane { layer, half: Half::V },
        ];
        let (n, width) = (self.plan.value(q).width, self.plan.value(k).width);
        self.push(Op::RopeAppend, attrs, n, width, Scalars::RopeAppend(scalars), operands);
    }

    /// Attention of `q` over the current layer's planes.
    pub fn attention(&mut self, name: &str, q: ValueId, attrs: u64, scalars: AttentionScalars) -> ValueId {
        let layer = self.layer.unwrap_or(0);
        let width = self.plan.value(q).width;
        let out = self.value(name, width);
        let operands = vec![
            PlanOperand::Value(q),
            PlanOperand::Plane { layer, half: Half::K },
            PlanOperand::Plane { layer, half: Half::V },
            PlanOperand::State(Section::SeqStart),
            PlanOperand::State(Section::KvLen),
            PlanOperand::State(Section::BlockTables),
            PlanOperand::Absent,
            PlanOperand::Value(out),
        ];
        // K is the context served; the engine sets it per list.
        self.push(Op::Attention, attrs, width, 0, Scalars::Attention(scalars), operands);
        out
    }

    /// `act(gate) * up`.
    pub fn glu(&mut self, name: &str, gate: ValueId, up: ValueId, attrs: u64) -> ValueId {
        let width = self.plan.value(gate).width;
        let out = self.value(name, width);
        let operands = [gate, up, out].map(PlanOperand::Value).to_vec();
        self.push(Op::Glu, attrs, 0, width, Scalars::Glu(GluScalars { reserved: [0; 2] }), operands);
        out
    }

    /// Ends the layers: `hidden` is the state of all rows; what follows computes only the wanted
    /// rows of it, which this returns.
    pub fn begin_tail(&mut self, hidden: ValueId) -> ValueId {
        self.layer = None;
        self.rows = Rows::Out;
        self.plan.tail = self.plan.ops.len();
        self.plan.hidden = hidden;
        let width = self.plan.value(hidden).width;
        let out = self.value("out_rows", width);
        let operands =
            vec![PlanOperand::Value(hidden), PlanOperand::State(Section::OutRows), PlanOperand::Value(out)];
        // N, the rows of the source, are the step's; the engine sets it per list.
        self.push(Op::Copy, attr::INDEXED, 0, width, Scalars::None, operands);
        out
    }

    /// Finishes the plan: every tensor of the file must have been bound.
    pub fn finish(mut self, logits: ValueId, architecture: &str) -> Result<Plan, PlanError> {
        self.plan.logits = logits;
        match self.file.tensors().iter().find(|tensor| !self.known.contains(&tensor.name)) {
            None => Ok(self.plan),
            Some(tensor) => Err(self.fail(PlanProblem::Unexpected {
                tensor: tensor.name.clone(),
                architecture: architecture.into(),
            })),
        }
    }

    /// An error about this file.
    pub fn fail(&self, problem: PlanProblem) -> PlanError {
        PlanError { path: self.file.path().to_path_buf(), problem }
    }

    fn bind(&mut self, name: &str, expected: &[u64]) -> Result<TensorId, PlanError> {
        let tensor = bound(self.checked(name, expected)?);
        if let Some(id) = self.bound.get(name) {
            return Ok(*id);
        }
        Ok(self.add_tensor(tensor, name.into()))
    }

    /// A tensor of the file with the shape it must have, in a format that can be decoded.
    fn checked(&mut self, name: &str, expected: &[u64]) -> Result<&'a TensorInfo, PlanError> {
        let file = self.file;
        let tensor =
            file.tensor(name).ok_or_else(|| self.fail(PlanProblem::Missing { tensor: name.into() }))?;
        if trimmed(&tensor.dims) != trimmed(expected) {
            let found = tensor.dims.clone();
            return Err(self.fail(PlanProblem::Shape {
                tensor: name.into(),
                expected: expected.into(),
                found,
            }));
        }
        if !tensor.format.is_decodable() {
            let known = Format::ALL.iter().filter(|format| format.is_decodable()).map(|format| format.name());
            return Err(self.fail(PlanProblem::Format {
                tensor: name.into(),
                found: tensor.format.name(),
                known: known.collect::<Vec<_>>().join(", "),
            }));
        }
        self.known.insert(name.into());
        Ok(tensor)
    }

    fn add_tensor(&mut self, tensor: PlanTensor, name: String) -> TensorId {
        let id = TensorId(self.plan.tensors.len() as u32);
        self.plan.tensors.push(tensor);
        self.bound.insert(name, id);
        id
    }

    fn value(&mut self, name: &str, width: u64) -> ValueId {
        let id = ValueId(self.plan.values.len() as u32);
        let name = match self.layer {
            Some(layer) => format!("blk.{layer}.{name}"),
            None => name.to_string(),
        };
        self.plan.values.push(Value { name, rows: self.rows, width });
        id
    }

    fn push(&mut self, op: Op, attrs: u64, n: u64, k: u64, scalars: Scalars, operands: Vec<PlanOperand>) {
        debug_assert_eq!(operands.len(), contract::operands(op).len(), "{}", op.name());
        let (layer, rows) = (self.layer, self.rows);
        self.plan.ops.push(PlanOp { op, attrs, layer, rows, per_row: 1, n, k, scalars, operands });
    }
}

/// A shape without trailing ones, which some writers add and some drop.
fn trimmed(dims: &[u64]) -> &[u64] {
    let mut dims = dims;
    while let [rest @ .., 1] = dims
        && !rest.is_empty()
    {
        dims = rest;
    }
    dims
}

fn bound(tensor: &TensorInfo) -> PlanTensor {
    PlanTensor {
        name: tensor.name.clone(),
        format: tensor.format,
        rows: tensor.n_rows(),
        width: tensor.row_len(),
        offset: tensor.offset,
        bytes: tensor.bytes,
    }
}
