//! One tiny kernel with a known result: a copy or a sum of a few rows of small whole numbers.

use cajeta_abi::{ArgSpec, DtypeId, LayoutId, MemoryKind, Problem, Row, ShapeGate, Step, Test, Wire};
use cajeta_catalog::contract::{operands, subject};
use cajeta_catalog::op::Op;

use super::Avoided;
use crate::candidate::{Refusal, Stage};
use crate::device::{BufferSpan, Device, DeviceError, LaunchSpec, Queue};

const ROWS: u64 = 4;
const WIDTH: u64 = 256;
const COUNT: usize = (ROWS * WIDTH) as usize;
const PROBLEM: Problem = Problem { m: ROWS, n: ROWS, k: WIDTH, batch: 1, aux: 0 };

/// Runs the first row it knows how to check and nobody knows to go wrong here; answers its name, or nothing
/// when there is none.
///
/// # Errors
/// Stage device: the kernel failed, or computed something else.
pub(super) fn run(device: &Device, avoided: &[Avoided]) -> Result<String, Refusal> {
    let rows = device.backend().rows();
    let goes_wrong = |row: &Row| avoided.iter().any(|rows| rows.holds(row.name.as_str(), device.facts()));
    let Some((index, row, op)) = rows.iter().enumerate().find_map(|(index, row)| {
        let op = suitable(device, row).filter(|_| !goes_wrong(row))?;
        Some((index, row, op))
    }) else {
        return Ok(String::new());
    };
    let name = row.name.as_str();
    let failed = |error: DeviceError| {
        Refusal::new(
            Stage::Device,
            format!("the trial kernel `{name}` failed: {error}"),
            "update the driver; if it stays, report this to the plugin's author",
        )
    };
    let (expected, found) = launch(device, index, row, op).map_err(failed)?;
    if let Some(at) = (0..COUNT).find(|&at| expected[at] != found[at]) {
        return Err(Refusal::new(
            Stage::Device,
            format!(
                "the trial kernel `{name}` computed {} at element {at}, expected {}",
                found[at], expected[at]
            ),
            "report this to the plugin's author",
        ));
    }
    Ok(name.to_owned())
}

/// Whether the row is a plain f32 copy or sum that serves the trial problem on this device.
fn suitable(device: &Device, row: &Row) -> Option<Op> {
    let [step] = row.steps.as_slice() else { return None };
    let op = Op::from_id(step.op).filter(|op| matches!(op, Op::Copy | Op::Add))?;
    let plain =
        |arg: &ArgSpec| arg.layout == LayoutId::PLAIN && matches!(arg.dtype, DtypeId::F32 | DtypeId::U32);
    let able =
        |need: &cajeta_abi::Need| device.backend().supports(device.index(), need.capability).unwrap_or(false);
    let serves = row.args.iter().all(plain)
        && row.ready_gates.is_empty()
        && row.shape_gates.iter().all(|gate| passes(op, gate))
        && row.needs.iter().all(able);
    serves.then_some(op)
}

fn passes(op: Op, gate: &ShapeGate) -> bool {
    let Some(value) = subject(op, &PROBLEM, &[], gate.subject) else { return false };
    let Some(&first) = gate.values.first() else { return false };
    match gate.test {
        Test::MULTIPLE_OF => first != 0 && value.is_multiple_of(first),
        Test::AT_MOST => value <= first,
        Test::AT_LEAST => value >= first,
        Test::ONE_OF => gate.values.contains(&value),
        _ => false,
    }
}

/// Small whole numbers, exact in every float format, sums included.
fn values(modulus: usize) -> Vec<f32> {
    (0..COUNT).map(|index| (index % modulus) as f32).collect()
}

/// The expected and the found result.
fn launch(device: &Device, index: usize, row: &Row, op: Op) -> Result<(Vec<f32>, Vec<f32>), DeviceError> {
    let inputs = match op {
        Op::Add => vec![values(61), values(53)],
        _ => vec![values(61)],
    };
    let expected: Vec<f32> = (0..COUNT).map(|at| inputs.iter().map(|input| input[at]).sum()).collect();
    let mut queue = device.queue()?;
    let mut args: Vec<Option<BufferSpan>> = vec![None; row.args.len()];
    let mut out = None;
    for (name, arg) in wired(op, &row.steps[0]) {
        let spec = &row.args[arg];
        let input = match name {
            "x" | "a" => Some(&inputs[0]),
            "b" => inputs.get(1),
            _ => None,
        };
        if input.is_none() && name != "out" {
            continue;
        }
        let bytes = (COUNT * size_of::<f32>()) as u64;
        let buffer = device.alloc(bytes + u64::from(spec.padding), MemoryKind::DEVICE, true)?;
        let span = buffer.span(0, bytes)?;
        match input {
            Some(input) => queue.upload(&span, bytemuck::cast_slice(input))?,
            None => out = Some(span.clone()),
        }
        args[arg] = Some(span);
    }
    let geometry = device.backend().geometry(index, device.facts(), &PROBLEM, &[])?;
    let spec = LaunchSpec {
        row: index,
        split: geometry.split_min.max(1),
        problem: PROBLEM,
        args,
        scalars: Vec::new(),
        scratch: zeroed(device, &mut queue, geometry.scratch_bytes)?,
        semaphores: zeroed(device, &mut queue, geometry.semaphore_bytes)?,
    };
    let list = device.list(&[spec])?;
    let ticket = queue.submit(&list)?;
    queue.wait(ticket)?;
    let mut found = vec![0f32; COUNT];
    if let Some(out) = out {
        queue.download(&out, bytemuck::cast_slice_mut(&mut found))?;
    }
    Ok((expected, found))
}

/// The operands of the step that are launch arguments, by name.
fn wired(op: Op, step: &Step) -> Vec<(&'static str, usize)> {
    let wires = step.operands.iter().map(|wire: &Wire| wire.as_arg());
    let named = operands(op).iter().map(|operand| operand.name).zip(wires);
    named.filter_map(|(name, arg)| Some((name, arg? as usize))).collect()
}

fn zeroed(device: &Device, queue: &mut Queue, bytes: u64) -> Result<Option<BufferSpan>, DeviceError> {
    /// More than any honest trial kernel asks for.
    const MOST: u64 = 64 << 20;
    if bytes == 0 {
        return Ok(None);
    }
    let len = usize::try_from(bytes.min(MOST)).unwrap_or(usize::MAX);
    let span = device.alloc(len as u64, MemoryKind::DEVICE, false)?.whole();
    queue.upload(&span, &vec![0; len])?;
    Ok(Some(span))
}
