//! Binds a launch: every span held against its operand, sizes that fit the kernels, addresses filled in.

use cajeta_plugin_api::abi::{LayoutId, Row, Shape};
use cajeta_plugin_api::catalog::oracle::compose::Place;
use cajeta_plugin_api::catalog::oracle::{Composition, operand_bytes};
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::{Answer, BufferSpan, Fault, Work};

use super::block::{ARGS, Block};
use super::shape::{Stage, needs, stages};
use crate::device::Buffer;
use crate::registry::{Entry, PACKED, entry, layout_bytes, rows};

/// A launch ready for the device.
pub(crate) struct Bound {
    /// Index of its row.
    pub(crate) row: usize,
    /// The row, as this crate knows it.
    pub(crate) entry: Entry,
    /// Its kernels, in order.
    pub(crate) stages: Vec<Stage>,
    /// What they read.
    pub(crate) block: Block,
}

/// Binds a launch for a device of so many multiprocessors.
///
/// # Errors
/// A span shorter than its operand at this problem, a problem beyond what the kernels count, missing scratch.
pub(crate) fn bind(work: &Work<Buffer>, multiprocessors: u64) -> Answer<Bound> {
    let (entry, row) = entry(work.row)
        .zip(rows().get(work.row))
        .ok_or_else(|| Fault::invalid(format!("row {} does not exist", work.row)))?;
    let named = |fault: Fault| Fault { text: format!("launch of {}: {}", row.name, fault.text), ..fault };
    check_spans(row, work).map_err(named)?;
    let split = work.split.max(1);
    let mut block = Block { split, ..Block::EMPTY };
    let problem = &work.problem;
    let letters = [
        ("M", problem.m, &mut block.m),
        ("N", problem.n, &mut block.n),
        ("K", problem.k, &mut block.k),
        ("batch", problem.batch, &mut block.batch),
        ("aux", problem.aux, &mut block.aux),
    ];
    for (letter, value, to) in letters {
        *to = u32::try_from(value)
            .ok()
            .filter(|value| *value <= i32::MAX as u32)
            .ok_or_else(|| named(Fault::unsupported(format!("{letter} = {value} is beyond 31 bits"))))?;
    }
    for ((arg, bytes), span) in block.arg.iter_mut().zip(&mut block.bytes).zip(&work.args) {
        if let Some(span) = span {
            (*arg, *bytes) = (address(span), span.len);
        }
    }
    block.scratch = work.scratch.as_ref().map_or(0, address);
    block.semaphores = work.semaphores.as_ref().map_or(0, address);
    block.set_scalars(&work.scalars);
    // The split is the launch's own, which may be less than the geometry's.
    let need = needs(entry, problem, &work.scalars, split).map_err(named)?;
    for (what, need, span) in
        [("scratch", need.scratch, &work.scratch), ("semaphores", need.semaphores, &work.semaphores)]
    {
        let given = span.as_ref().map_or(0, |span| span.len);
        if given < need {
            return Err(named(Fault::invalid(format!("{need} bytes of {what} expected, {given} given"))));
        }
    }
    let stages = stages(entry, problem, &work.scalars, split, multiprocessors).map_err(named)?;
    Ok(Bound { row: work.row, entry, stages, block })
}

fn address(span: &BufferSpan<Buffer>) -> u64 {
    span.buffer.address() + span.offset
}

/// Holds each span against the operands it serves.
fn check_spans(row: &Row, work: &Work<Buffer>) -> Answer<()> {
    if row.args.len() > ARGS {
        return Err(Fault::internal(format!("{} arguments, kernels take {ARGS}", row.args.len())));
    }
    let refuse = |error: cajeta_plugin_api::catalog::oracle::OracleError| Fault::invalid(error.to_string());
    let present = |arg: usize| work.args.get(arg).is_some_and(Option::is_some);
    let composition = Composition::of(row, &work.problem, &work.scalars, None, &present).map_err(refuse)?;
    for step in &composition.steps {
        for (operand, place) in step.operands.iter().enumerate() {
            let Place::Arg(arg) = *place else { continue };
            let Some((spec, span)) = row.args.get(arg).zip(work.args.get(arg).and_then(Option::as_ref))
            else {
                continue;
            };
            let format = Format::from_id(spec.format.0).filter(|_| spec.layout == LayoutId::GGUF);
            let need = if spec.layout.0 >= LayoutId::OWN.0 {
                let rows = if spec.layout == PACKED { step.problem.m } else { step.problem.n };
                let shape = Shape { format: spec.format, rows, width: step.problem.k };
                Some(layout_bytes(spec.layout, &[shape])?)
            } else {
                operand_bytes(step.op, &step.problem, &step.scalars, format, operand).map_err(refuse)?
            };
            // A plane is any whole number of blocks; kernels hold its tables against its length.
            if need.is_some_and(|need| span.len < need) {
                return Err(Fault::invalid(format!(
                    "argument {arg} takes {} bytes at this problem, {} given",
                    need.unwrap_or(0),
                    span.len
                )));
            }
        }
    }
    Ok(())
}
