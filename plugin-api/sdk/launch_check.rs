//! Holds a launch against its row before a device sees it.

use std::sync::Arc;

use cajeta_abi::abi_stable::std_types::RSlice;
use cajeta_abi::{Access, BufferArg, Code, Fact, Handle, Launch, Row};
use cajeta_catalog::contract::operands;
use cajeta_catalog::op::Op;
use cajeta_catalog::scalars::scalar_bytes;

use crate::backend::Backend;
use crate::device::{BufferSpan, Device, Work};
use crate::fault::{Answer, Fault};
use crate::instance::Open;

/// Resolves and checks one launch; the refusals are listed at [`Work`].
pub(crate) fn check<B: Backend>(
    open: &Open<B::Device>,
    launch: &Launch<'_>,
) -> Answer<Work<<B::Device as Device>::Buffer>> {
    let rows = B::rows();
    let index = launch.row as usize;
    let row = rows.get(index).ok_or_else(|| {
        Fault::invalid(format!("row {} does not exist: this backend has {} rows", launch.row, rows.len()))
    })?;
    let refuse = |what: String| Fault::invalid(format!("launch of {}: {what}", row.name));

    let given = launch.args.as_slice();
    if given.len() != row.args.len() {
        return Err(refuse(format!("{} arguments expected, {} given", row.args.len(), given.len())));
    }
    let mut args = Vec::with_capacity(given.len());
    for (position, (arg, spec)) in given.iter().zip(row.args.iter()).enumerate() {
        let span = if arg.buffer == Handle::NONE && optional(row, position) {
            None
        } else {
            let span = resolve::<B::Device>(open, arg, u64::from(spec.padding), u64::from(spec.align))
                .map_err(|fault| Fault {
                    code: fault.code,
                    ..refuse(format!("argument {position}: {}", fault.text))
                })?;
            if let Some(limit) = open.facts.get(Fact::LARGEST_BINDING)
                && span.len > limit
            {
                return Err(refuse(format!(
                    "argument {position} spans {} bytes, more than the device's largest binding of {limit}",
                    span.len
                )));
            }
            Some(span)
        };
        args.push(span);
    }
    overlaps(row, given).map_err(refuse)?;

    let scalars = launch.scalars.as_slice();
    check_scalars(row, scalars)?;
    let geometry = B::geometry(index, &open.facts, &launch.problem, scalars)?;
    let side = |what: &str, arg: &BufferArg, need: u64| {
        if need == 0 {
            return Ok(None);
        }
        let span = resolve::<B::Device>(open, arg, 0, 1)?;
        if span.len < need {
            return Err(refuse(format!("{need} bytes of {what} expected, {} given", span.len)));
        }
        Ok(Some(span))
    };
    let scratch = side("scratch", &launch.scratch, geometry.scratch_bytes)?;
    let semaphores = side("semaphores", &launch.semaphores, geometry.semaphore_bytes)?;
    let split = launch.split.max(1);
    if split > geometry.split_max.max(1) {
        return Err(refuse(format!("split {split} is past the largest, {}", geometry.split_max.max(1))));
    }
    Ok(Work {
        row: index,
        split,
        problem: launch.problem,
        args,
        scalars: launch.scalars.as_slice().to_vec(),
        scratch,
        semaphores,
    })
}

/// Refuses scalars that are not as long as the row's steps take together. A row with an op this crate does not know is
/// not held to anything here.
pub(crate) fn check_scalars(row: &Row, scalars: &[u8]) -> Answer<()> {
    let ops: Option<Vec<Op>> = row.steps.iter().map(|step| Op::from_id(step.op)).collect();
    let expected: Option<usize> = ops.map(|ops| ops.into_iter().map(scalar_bytes).sum());
    match expected {
        Some(expected) if expected != scalars.len() => Err(Fault::invalid(format!(
            "{}: {expected} bytes of scalars expected, {} given",
            row.name,
            scalars.len()
        ))),
        _ => Ok(()),
    }
}

/// Whether an argument may be absent: every operand it serves is optional.
fn optional(row: &Row, position: usize) -> bool {
    row.steps.iter().all(|step| {
        let Some(op) = Op::from_id(step.op) else { return false };
        step.operands
            .iter()
            .zip(operands(op))
            .all(|(wire, operand)| wire.as_arg() != Some(position as u32) || operand.attr != 0)
    })
}

fn resolve<D: Device>(
    open: &Open<D>,
    arg: &BufferArg,
    padding: u64,
    align: u64,
) -> Answer<BufferSpan<D::Buffer>> {
    let buffer: Arc<D::Buffer> = Arc::clone(&*open.buffers.get(arg.buffer)?);
    let bytes = D::buffer_len(&buffer);
    let fits =
        arg.offset <= bytes && arg.len <= bytes - arg.offset && padding <= bytes - arg.offset - arg.len;
    if !fits {
        return Err(Fault {
            code: Code::INVALID,
            text: format!(
                "{} bytes (and {padding} of padding) from byte {} do not fit the buffer's {bytes}",
                arg.len, arg.offset
            ),
        });
    }
    if align > 1 && !arg.offset.is_multiple_of(align) {
        return Err(Fault::invalid(format!("byte {} is no multiple of {align}", arg.offset)));
    }
    Ok(BufferSpan { buffer, offset: arg.offset, len: arg.len })
}

/// Written spans overlap nothing, except exactly where the row says so.
fn overlaps(row: &Row, given: &[BufferArg]) -> Result<(), String> {
    let specs: &RSlice<'_, _> = &row.args;
    for (i, (a, a_spec)) in given.iter().zip(specs.iter()).enumerate() {
        for (j, (b, b_spec)) in given.iter().zip(specs.iter()).enumerate().skip(i + 1) {
            let writes = a_spec.access != Access::READ || b_spec.access != Access::READ;
            let apart = a.buffer != b.buffer
                || a.buffer == Handle::NONE
                || a.offset + a.len <= b.offset
                || b.offset + b.len <= a.offset;
            let in_place = (a_spec.alias == j as i32 || b_spec.alias == i as i32) && a == b;
            if writes && !apart && !in_place {
                return Err(format!("arguments {i} and {j} overlap and one of them is written"));
            }
        }
    }
    Ok(())
}
