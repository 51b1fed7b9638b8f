//! A launch's operands as checked pointers.

use cajeta_plugin_api::abi::{Access, Problem};
use cajeta_plugin_api::catalog::contract;
use cajeta_plugin_api::catalog::op::Op;
use cajeta_plugin_api::catalog::oracle::operand_bytes;
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::catalog::scalars;
use cajeta_plugin_api::{Answer, Fault, Work};

use crate::device::Buffer;

/// Memory of one operand. Valid while the list that made it lives.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    start: *mut u8,
    bytes: u64,
}

// SAFETY: a pointer into a buffer that is itself `Send` and `Sync`; who touches
// it when is the order of launches.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(crate) fn bytes(self) -> *mut u8 {
        self.start
    }

    pub(crate) fn len(self) -> u64 {
        self.bytes
    }

    pub(crate) fn f32(self) -> *mut f32 {
        self.start.cast()
    }

    pub(crate) fn u16(self) -> *mut u16 {
        self.start.cast()
    }

    pub(crate) fn u32(self) -> *mut u32 {
        self.start.cast()
    }
}

/// Reads the operands of a launch, step by step.
pub(crate) struct Operands<'a> {
    pub(crate) work: &'a Work<Buffer>,
    ops: Vec<Op>,
}

impl<'a> Operands<'a> {
    pub(crate) fn new(work: &'a Work<Buffer>, ops: Vec<Op>) -> Operands<'a> {
        Operands { work, ops }
    }

    /// The problem of the launch.
    pub(crate) fn problem(&self) -> Problem {
        self.work.problem
    }

    /// The scalar block of step `step`.
    pub(crate) fn scalars<T: bytemuck::Pod>(&self, step: usize) -> Answer<T> {
        scalars::read_step(&self.ops, step, &self.work.scalars).ok_or_else(|| {
            Fault::invalid(format!("{} bytes of scalars do not hold step {step}'s", self.work.scalars.len()))
        })
    }

    /// Argument `arg`, as operand `name` of step `step` at `problem`, or `None`
    /// when it is not given. Checked to be as long as the operand, and writable
    /// where the operand is written.
    pub(crate) fn optional(
        &self,
        arg: usize,
        step: usize,
        name: &str,
        problem: &Problem,
        format: Option<Format>,
    ) -> Answer<Option<Memory>> {
        let Some(span) = self.work.args.get(arg).and_then(Option::as_ref) else { return Ok(None) };
        let op =
            self.ops.get(step).copied().ok_or_else(|| Fault::internal("a step the row does not have"))?;
        let position = contract::operands(op).iter().position(|operand| operand.name == name);
        let (position, operand) = position
            .and_then(|at| contract::operands(op).get(at).map(|operand| (at, operand)))
            .ok_or_else(|| Fault::internal(format!("{} has no operand {name}", op.name())))?;
        let before: usize = self.ops[..step].iter().map(|&op| scalars::scalar_bytes(op)).sum();
        let block = self.work.scalars.get(before..before + scalars::scalar_bytes(op)).unwrap_or(&[]);
        let need = operand_bytes(op, problem, block, format, position)
            .map_err(|error| Fault::invalid(error.to_string()))?;
        if need.is_some_and(|need| span.len < need) {
            return Err(Fault::invalid(format!(
                "operand {name} takes {} bytes, argument {arg} spans {}",
                need.unwrap_or(0),
                span.len
            )));
        }
        if operand.access != Access::READ && !span.buffer.writable() {
            return Err(Fault::invalid(format!(
                "operand {name} is written, but its pages were imported for reading only"
            )));
        }
        // Spans lie within their buffers, so this stays inside one allocation.
        let start = span.buffer.start().wrapping_add(span.offset as usize);
        Ok(Some(Memory { start, bytes: span.len }))
    }

    /// As [`Operands::optional`], for an operand that must be there.
    pub(crate) fn get(
        &self,
        arg: usize,
        step: usize,
        name: &str,
        problem: &Problem,
        format: Option<Format>,
    ) -> Answer<Memory> {
        self.optional(arg, step, name, problem, format)?
            .ok_or_else(|| Fault::invalid(format!("operand {name} (argument {arg}) is missing")))
    }

    /// Scratch memory of at least `bytes`.
    pub(crate) fn scratch(&self, bytes: u64) -> Answer<Memory> {
        match &self.work.scratch {
            Some(span) if span.len >= bytes && span.buffer.writable() => {
                let start = span.buffer.start().wrapping_add(span.offset as usize);
                Ok(Memory { start, bytes: span.len })
            }
            _ if bytes == 0 => Ok(Memory { start: std::ptr::dangling_mut(), bytes: 0 }),
            _ => Err(Fault::invalid(format!("{bytes} bytes of scratch are missing"))),
        }
    }
}

/// A size of the problem as an index, refused when this machine cannot count that far.
pub(crate) fn count(letter: &str, value: u64) -> Answer<usize> {
    usize::try_from(value)
        .ok()
        .filter(|&value| value <= isize::MAX as usize / 16)
        .ok_or_else(|| Fault::invalid(format!("{letter} = {value} is more than this machine can address")))
}
