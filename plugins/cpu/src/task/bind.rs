//! From a launch to the task that runs it: scalars read, sizes checked, kernels chosen.

use cajeta_plugin_api::abi::Problem;
use cajeta_plugin_api::catalog::op::Op;
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::catalog::scalars::{
    AttentionScalars, EmbedScalars, MatmulScalars, NormScalars, RopeAppendScalars,
};
use cajeta_plugin_api::{Answer, Fault, Work};

use super::attention::{Attention, FEW_ROWS, FewRows};
use super::attention_rows::RowByRow;
use super::attention_tile::{ManyRows, TILE};
use super::deq::WidenTask;
use super::embed::EmbedTask;
use super::matmul::{DOT_ROWS, Ending, Part, Product, product_task};
use super::operands::{Memory, Operands, count};
use super::rope::{HEAD_DIM_MAX, RopeTask, turns};
use super::rows::{RowOp, RowTask};
use super::tail::{AdvanceTask, PickTask};
use super::{Task, attention_scratch_bytes, gemm_scratch_bytes};
use crate::device::Buffer;
use crate::kernel::table::{FORMATS, Kernels};
use crate::registry::{Entry, Kind, entry, wide_bytes};

/// Prepares a launch.
pub(crate) fn bind(work: &Work<Buffer>) -> Answer<Box<dyn Task>> {
    let entry = entry(work.row).ok_or_else(|| Fault::invalid(format!("row {} does not exist", work.row)))?;
    if !entry.tier.supported() {
        return Err(Fault::unsupported(format!(
            "this machine does not have (or CAJETA_CPU_SIMD forbids) {}",
            entry.tier.name()
        )));
    }
    let operands = Operands::new(work, entry.kind.ops().to_vec());
    let kernels = Kernels::of(entry.tier);
    match entry.kind {
        Kind::Matmul | Kind::MatmulFar | Kind::MatmulAdd | Kind::GateUp { .. } | Kind::Qkv { .. } => {
            product(&entry, kernels, &operands)
        }
        Kind::Widen => widen(&entry, kernels, &operands),
        Kind::Norm | Kind::Add | Kind::Glu { .. } | Kind::Copy => row_op(&entry, kernels, &operands),
        Kind::Embed => embed(&entry, &operands),
        Kind::RopeAppend { pairs } => rope(pairs, kernels, &operands),
        Kind::Attention | Kind::AttentionRows => attention(&entry, kernels, &operands),
        Kind::Argmax | Kind::Sample => pick(&entry, kernels, &operands),
        Kind::Advance => {
            let problem = operands.problem();
            let state = operands.get(0, 0, "state", &problem, None)?;
            Ok(Box::new(AdvanceTask { problem, scalars: work.scalars.clone(), state }))
        }
    }
}

fn format_of(entry: &Entry) -> Answer<(usize, Format)> {
    let index = entry.format.ok_or_else(|| Fault::internal("a weight row without a format"))?;
    Ok((index, FORMATS[index]))
}

fn product(entry: &Entry, kernels: &'static Kernels, operands: &Operands<'_>) -> Answer<Box<dyn Task>> {
    let problem = operands.problem();
    if entry.wide && problem.m <= DOT_ROWS as u64 {
        return Err(Fault::unsupported(format!(
            "{} rows: widened weights serve from {}",
            problem.m,
            DOT_ROWS + 1
        )));
    }
    let parts = match entry.kind {
        Kind::Qkv { value } => projections(entry, value, operands)?,
        _ => vec![single(entry, operands)?],
    };
    let product = Product {
        kernels,
        m: count("M", problem.m)?,
        k: count("K", problem.k)?,
        x: operands.get(0, 0, "x", &problem, None)?,
        far: entry.kind == Kind::MatmulFar,
        parts,
    };
    let scratch = gemm_scratch_bytes(entry.tier, problem.m, problem.k)
        .ok_or_else(|| Fault::invalid("the packed activations overflow 64 bits"))?;
    let scratch = if scratch > 0 { Some(operands.scratch(scratch)?) } else { None };
    product_task(product, scratch)
}

/// The part of a product with one output.
fn single(entry: &Entry, operands: &Operands<'_>) -> Answer<Part> {
    let problem = operands.problem();
    let (index, format) = format_of(entry)?;
    let weight = weight(entry, operands, 1, 0, &problem, format)?;
    let after = Problem { k: problem.n, ..problem };
    let (ending, out) = match entry.kind {
        Kind::MatmulAdd => {
            let bias = operands.optional(2, 0, "bias", &problem, None)?;
            let residual = operands.get(3, 1, "a", &after, None)?;
            (Ending::Add { bias, residual }, operands.get(4, 1, "out", &after, None)?)
        }
        Kind::GateUp { gelu } => {
            let up = self::weight(entry, operands, 2, 1, &problem, format)?;
            (Ending::Glu { up, gelu }, operands.get(3, 2, "out", &after, None)?)
        }
        _ => {
            let bias = operands.optional(2, 0, "bias", &problem, None)?;
            let softcap = operands.scalars::<MatmulScalars>(0)?.softcap;
            (Ending::Plain { bias, softcap }, operands.get(3, 0, "out", &problem, None)?)
        }
    };
    Ok(Part { format: index, wide: entry.wide, n: count("N", problem.n)?, weight, out, ending })
}

/// q, k and v: the problem is the query's, `aux` the width of the other two.
fn projections(entry: &Entry, value: usize, operands: &Operands<'_>) -> Answer<Vec<Part>> {
    let problem = operands.problem();
    let (index, _) = format_of(entry)?;
    let aside = Problem { n: problem.aux, ..problem };
    let each = [(index, problem), (index, aside), (value, aside)];
    let part = |(step, (format, problem)): (usize, (usize, Problem))| {
        let [weight, bias, out] = [1, 4, 7].map(|first| first + step);
        let bias = operands.optional(bias, step, "bias", &problem, None)?;
        Ok(Part {
            format,
            wide: entry.wide,
            n: count("the width of a projection", problem.n)?,
            weight: self::weight(entry, operands, weight, step, &problem, FORMATS[format])?,
            out: operands.get(out, step, "out", &problem, None)?,
            ending: Ending::Plain { bias, softcap: 0.0 },
        })
    };
    each.into_iter().enumerate().map(part).collect()
}

/// The weight of a product: blocks of its format, or tiles of f32.
fn weight(
    entry: &Entry,
    operands: &Operands<'_>,
    arg: usize,
    step: usize,
    problem: &Problem,
    format: Format,
) -> Answer<Memory> {
    if !entry.wide {
        return operands.get(arg, step, "weight", problem, Some(format));
    }
    let weight = operands.get(arg, step, "weight", problem, Some(Format::F32))?;
    widened(entry, problem, weight, arg)
}

/// The memory of a widened weight, if it is long enough.
fn widened(entry: &Entry, problem: &Problem, memory: Memory, arg: usize) -> Answer<Memory> {
    let need = wide_bytes(entry.tier, problem.n, problem.k)
        .ok_or_else(|| Fault::invalid("the widened weight overflows 64 bits"))?;
    if memory.len() < need {
        return Err(Fault::invalid(format!(
            "the widened weight takes {need} bytes, argument {arg} spans {}",
            memory.len()
        )));
    }
    Ok(memory)
}

fn widen(entry: &Entry, kernels: &'static Kernels, operands: &Operands<'_>) -> Answer<Box<dyn Task>> {
    let problem = operands.problem();
    let (index, format) = format_of(entry)?;
    let out = operands.get(1, 0, "out", &problem, None)?;
    Ok(Box::new(WidenTask {
        kernels,
        format: index,
        n: count("N", problem.n)?,
        k: count("K", problem.k)?,
        source: operands.get(0, 0, "source", &problem, Some(format))?,
        out: widened(entry, &problem, out, 1)?,
    }))
}

fn row_op(entry: &Entry, kernels: &'static Kernels, operands: &Operands<'_>) -> Answer<Box<dyn Task>> {
    let problem = operands.problem();
    let get = |arg: usize, name: &str| operands.get(arg, 0, name, &problem, None);
    let (op, out) = match entry.kind {
        Kind::Norm => {
            let NormScalars { eps, offset } = operands.scalars(0)?;
            (RowOp::Norm { x: get(0, "x")?, weight: get(1, "weight")?, eps, offset }, get(2, "out")?)
        }
        Kind::Glu { gelu } => (RowOp::Glu { gate: get(0, "gate")?, up: get(1, "up")?, gelu }, get(2, "out")?),
        Kind::Copy => {
            let index = operands.optional(1, 0, "index", &problem, None)?;
            (RowOp::Copy { x: get(0, "x")?, index, n: count("N", problem.n)? }, get(2, "out")?)
        }
        _ => (RowOp::Add { a: get(0, "a")?, b: get(1, "b")? }, get(2, "out")?),
    };
    Ok(Box::new(RowTask { kernels, m: count("M", problem.m)?, k: count("K", problem.k)?, op, out }))
}

fn embed(entry: &Entry, operands: &Operands<'_>) -> Answer<Box<dyn Task>> {
    let problem = operands.problem();
    let (_, format) = format_of(entry)?;
    let EmbedScalars { scale, .. } = operands.scalars(0)?;
    let row_bytes = format.row_bytes(problem.k).unwrap_or(0);
    Ok(Box::new(EmbedTask {
        format,
        m: count("M", problem.m)?,
        n: count("N", problem.n)?,
        k: count("K", problem.k)?,
        row_bytes: count("a table row", row_bytes)?,
        tokens: operands.get(0, 0, "tokens", &problem, None)?,
        table: operands.get(1, 0, "table", &problem, Some(format))?,
        out: operands.get(2, 0, "out", &problem, None)?,
        scale,
    }))
}

fn head_dim(dim: u32) -> Answer<()> {
    if dim == 0 || !dim.is_multiple_of(16) || dim as usize > HEAD_DIM_MAX {
        return Err(Fault::unsupported(format!(
            "heads of {dim} elements: expected a multiple of 16 up to {HEAD_DIM_MAX}"
        )));
    }
    Ok(())
}

fn rope(pairs: bool, kernels: &'static Kernels, operands: &Operands<'_>) -> Answer<Box<dyn Task>> {
    let problem = operands.problem();
    let heads: RopeAppendScalars = operands.scalars(0)?;
    head_dim(heads.head_dim)?;
    let get = |arg: usize, name: &str| operands.get(arg, 0, name, &problem, None);
    Ok(Box::new(RopeTask {
        kernels,
        m: count("M", problem.m)?,
        seqs: count("the number of sequences", problem.batch)?,
        heads,
        pairs,
        q: get(0, "q")?,
        k: get(1, "k")?,
        v: get(2, "v")?,
        positions: get(3, "positions")?,
        row_seq: get(4, "row_seq")?,
        tables: get(5, "block_tables")?,
        factors: operands.optional(6, 0, "factors", &problem, None)?,
        k_plane: get(7, "k_plane")?,
        v_plane: get(8, "v_plane")?,
        turns: turns(&heads),
        magnitude: f64::from(heads.attn_factor),
    }))
}

fn attention(entry: &Entry, kernels: &'static Kernels, operands: &Operands<'_>) -> Answer<Box<dyn Task>> {
    let problem = operands.problem();
    let heads: AttentionScalars = operands.scalars(0)?;
    head_dim(heads.head_dim)?;
    let get = |arg: usize, name: &str| operands.get(arg, 0, name, &problem, None);
    let attention = Attention {
        kernels,
        m: count("M", problem.m)?,
        seqs: count("the number of sequences", problem.batch)?,
        bucket: count("K", problem.k)?,
        heads,
        q: get(0, "q")?,
        k_plane: get(1, "k_plane")?,
        v_plane: get(2, "v_plane")?,
        seq_start: get(3, "seq_start")?,
        kv_len: get(4, "kv_len")?,
        tables: get(5, "block_tables")?,
        sinks: operands.optional(6, 0, "sinks", &problem, None)?,
        out: get(7, "out")?,
    };
    let together = entry.kind == Kind::Attention;
    if !together || attention.m > FEW_ROWS {
        if attention.group() > TILE {
            return Err(Fault::unsupported(format!("{} query heads per K/V head", attention.group())));
        }
        return Ok(if together { Box::new(ManyRows(attention)) } else { Box::new(RowByRow(attention)) });
    }
    let bytes = attention_scratch_bytes(problem.m, problem.n, problem.k)
        .ok_or_else(|| Fault::invalid("the partial answers overflow 64 bits"))?;
    let partial: Memory = operands.scratch(bytes)?;
    Ok(Box::new(FewRows { attention, partial }))
}

fn pick(entry: &Entry, kernels: &'static Kernels, operands: &Operands<'_>) -> Answer<Box<dyn Task>> {
    let problem = operands.problem();
    let get = |arg: usize, name: &str| operands.get(arg, 0, name, &problem, None);
    let n = count("N", problem.n)?;
    if u32::try_from(n).is_err() {
        return Err(Fault::unsupported(format!("{n} logits do not fit a token id")));
    }
    let (params, out) = match entry.kind {
        Kind::Sample => (Some(get(1, "params")?), get(2, "out")?),
        _ => (None, get(1, "out")?),
    };
    Ok(Box::new(PickTask { kernels, m: count("M", problem.m)?, n, logits: get(0, "logits")?, params, out }))
}

impl Kind {
    /// The ops of the row's steps, in order.
    pub(crate) fn ops(self) -> &'static [Op] {
        match self {
            Kind::Embed => &[Op::Embed],
            Kind::Norm => &[Op::Norm],
            Kind::Add => &[Op::Add],
            Kind::Glu { .. } => &[Op::Glu],
            Kind::Copy => &[Op::Copy],
            Kind::RopeAppend { .. } => &[Op::RopeAppend],
            Kind::Attention | Kind::AttentionRows => &[Op::Attention],
            Kind::Argmax => &[Op::Argmax],
            Kind::Sample => &[Op::Sample],
            Kind::Advance => &[Op::Advance],
            Kind::Matmul | Kind::MatmulFar => &[Op::Matmul],
            Kind::Widen => &[Op::Relayout],
            Kind::MatmulAdd => &[Op::Matmul, Op::Add],
            Kind::GateUp { .. } => &[Op::Matmul, Op::Matmul, Op::Glu],
            Kind::Qkv { .. } => &[Op::Matmul, Op::Matmul, Op::Matmul],
        }
    }
}
