//! The oracle of a row: its steps one after another, through internal values.

use cajeta_abi::{Problem, Row, Wire};

use super::shapes::{row_ops, step_problems};
use super::{OracleBuf, OracleError, operand_bytes, run};
use crate::contract;
use crate::op::{Op, attr};
use crate::scalars::scalar_bytes;

/// Where an operand of a step is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// An optional operand this instance does not have.
    Absent,
    /// A buffer the caller gives, by index.
    Arg(usize),
    /// A value that lives only during the composition.
    Internal(usize),
}

/// One step, ready to run.
#[derive(Clone, PartialEq, Debug)]
pub struct StepCall {
    /// The op.
    pub op: Op,
    /// The attributes asked for.
    pub attrs: u64,
    /// Its own problem.
    pub problem: Problem,
    /// Its own scalar block.
    pub scalars: Vec<u8>,
    /// One place per operand of the contract.
    pub operands: Vec<Place>,
}

/// The steps of one launch of a row.
#[derive(Clone, PartialEq, Debug)]
pub struct Composition {
    /// In order.
    pub steps: Vec<StepCall>,
    /// Bytes of each internal value.
    pub internals: Vec<u64>,
}

impl Composition {
    /// The composition of a launch: `attrs` are asked for per step, in order,
    /// and default to all the row can compute; `present` says which arguments
    /// the launch gives.
    ///
    /// # Errors
    /// As [`step_problems`]; scalars of the wrong length; wires that lead nowhere.
    pub fn of(
        row: &Row,
        problem: &Problem,
        scalars: &[u8],
        attrs: Option<&[u64]>,
        present: &dyn Fn(usize) -> bool,
    ) -> Result<Composition, OracleError> {
        let ops = row_ops(row)?;
        let problems = step_problems(row, problem, scalars)?;
        let mut steps = Vec::with_capacity(ops.len());
        let mut internals = Vec::new();
        let mut rest = scalars;
        for (index, ((&op, spec), problem)) in ops.iter().zip(row.steps.iter()).zip(problems).enumerate() {
            let Some((block, after)) = rest.split_at_checked(scalar_bytes(op)) else {
                let what = format!("expected {} bytes of scalars, got {}", scalar_bytes(op), rest.len());
                return Err(OracleError::size(op, what));
            };
            rest = after;
            let contract = contract::operands(op);
            if spec.operands.len() != contract.len() {
                let got = spec.operands.len();
                return Err(OracleError::OperandCount { op, expected: contract.len(), got });
            }
            let places: Vec<Place> = spec.operands.iter().map(|&wire| place(wire, present)).collect();
            let mut asked = attrs.and_then(|attrs| attrs.get(index).copied()).unwrap_or(spec.attrs);
            for (position, (place, operand)) in places.iter().zip(contract).enumerate() {
                if *place == Place::Absent {
                    asked &= !operand.attr;
                }
                if let Place::Internal(value) = *place {
                    let bytes = operand_bytes(op, &problem, block, None, position)?
                        .or_else(|| problem.m.checked_mul(problem.k)?.checked_mul(4));
                    let bytes =
                        bytes.ok_or_else(|| OracleError::size(op, "an internal value has no size"))?;
                    if value >= internals.len() {
                        internals.resize(value.min(row.steps.len() * 8) + 1, 0);
                    }
                    if let Some(size) = internals.get_mut(value) {
                        *size = bytes.max(*size);
                    }
                }
            }
            steps.push(StepCall { op, attrs: asked, problem, scalars: block.to_vec(), operands: places });
        }
        Ok(Composition { steps, internals })
    }

    /// Runs the steps. `pack` is the identity here: the layout it writes is the
    /// plugin's, the values in it are these.
    ///
    /// # Errors
    /// Whatever an op refuses; a place that does not exist.
    pub fn run(&self, args: &mut [OracleBuf<'_>]) -> Result<(), OracleError> {
        let mut values = Vec::new();
        for &bytes in &self.internals {
            let bytes = usize::try_from(bytes)
                .map_err(|_| OracleError::size(Op::Copy, format!("an internal value of {bytes} bytes")))?;
            values.push(vec![0xFFu8; bytes]);
        }
        self.steps.iter().try_for_each(|step| step.run(args, &mut values))
    }
}

fn place(wire: Wire, present: &dyn Fn(usize) -> bool) -> Place {
    match (wire.as_arg(), wire.as_internal()) {
        (Some(arg), _) if present(arg as usize) => Place::Arg(arg as usize),
        (_, Some(value)) => Place::Internal(value as usize),
        _ => Place::Absent,
    }
}

impl StepCall {
    fn run(&self, args: &mut [OracleBuf<'_>], values: &mut [Vec<u8>]) -> Result<(), OracleError> {
        // What is written is taken out of its place for the call, so that an
        // operand computed in place is read from a copy.
        let contract = contract::operands(self.op);
        let writes = |index: usize| contract.get(index).is_some_and(|o| o.access != cajeta_abi::Access::READ);
        let mut copies: Vec<Option<Vec<u8>>> = Vec::new();
        for (index, place) in self.operands.iter().enumerate() {
            let shared = !writes(index)
                && self.operands.iter().enumerate().any(|(other, p)| writes(other) && p == place);
            copies.push(if shared { bytes_of(args, values, *place).map(<[u8]>::to_vec) } else { None });
        }
        let mut args: Vec<Option<OracleBuf<'_>>> = args.iter_mut().map(|arg| Some(arg.reborrow())).collect();
        let mut values: Vec<Option<OracleBuf<'_>>> =
            values.iter_mut().map(|value| Some(OracleBuf::Out(value))).collect();
        let mut buffers: Vec<OracleBuf<'_>> = Vec::new();
        for (index, (place, copy)) in self.operands.iter().zip(&copies).enumerate() {
            let slot = match (copy, *place) {
                (Some(copy), _) => {
                    buffers.push(OracleBuf::Plain(copy));
                    continue;
                }
                (None, Place::Absent) => {
                    buffers.push(OracleBuf::Absent);
                    continue;
                }
                (None, Place::Arg(at)) => args.get_mut(at),
                (None, Place::Internal(at)) => values.get_mut(at),
            };
            let buffer = slot.and_then(|slot| take(slot, writes(index)));
            let name = contract.get(index).map_or("?", |operand| operand.name);
            buffers.push(buffer.ok_or_else(|| {
                OracleError::size(self.op, format!("operand {name} is written twice, or nowhere"))
            })?);
        }
        match self.op {
            Op::Pack => {
                let problem = Problem { n: self.problem.m, ..self.problem };
                let [x, out] = buffers.try_into().map_err(|buffers: Vec<OracleBuf<'_>>| {
                    OracleError::OperandCount { op: self.op, expected: 2, got: buffers.len() }
                })?;
                run(Op::Copy, self.attrs & !attr::INDEXED, &problem, &[], &mut [x, OracleBuf::Absent, out])
            }
            op => run(op, self.attrs, &self.problem, &self.scalars, &mut buffers),
        }
    }
}

/// Read-only memory can be lent many times, writable memory once.
fn take<'a>(slot: &mut Option<OracleBuf<'a>>, write: bool) -> Option<OracleBuf<'a>> {
    match slot {
        Some(OracleBuf::Plain(bytes)) => Some(OracleBuf::Plain(bytes)),
        Some(OracleBuf::Weight(format, bytes)) => Some(OracleBuf::Weight(*format, bytes)),
        Some(OracleBuf::Absent) => Some(OracleBuf::Absent),
        Some(OracleBuf::Out(_)) if write => slot.take(),
        Some(OracleBuf::Out(_)) => match slot.take() {
            // From here on it is only read.
            Some(OracleBuf::Out(bytes)) => {
                let bytes: &'a [u8] = bytes;
                *slot = Some(OracleBuf::Plain(bytes));
                Some(OracleBuf::Plain(bytes))
            }
            other => other,
        },
        None => None,
    }
}

fn bytes_of<'s>(args: &'s [OracleBuf<'_>], values: &'s [Vec<u8>], place: Place) -> Option<&'s [u8]> {
    match place {
        Place::Absent => None,
        Place::Internal(at) => values.get(at).map(Vec::as_slice),
        Place::Arg(at) => match args.get(at)? {
            OracleBuf::Absent => None,
            OracleBuf::Plain(bytes) | OracleBuf::Weight(_, bytes) => Some(bytes),
            OracleBuf::Out(bytes) => Some(bytes),
        },
    }
}

#[cfg(test)]
mod tests;
