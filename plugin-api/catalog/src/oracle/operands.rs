//! The operands of one call, checked against the contract before anything runs.

use cajeta_abi::{Access, Problem};

use super::size::operand_bytes;
use super::{OracleBuf, OracleError};
use crate::contract::{self, Operand};
use crate::op::Op;
use crate::quant::Format;
use crate::scalars;

/// Checked operands; reading and writing them stays checked all the same.
pub(super) struct Operands<'a> {
    op: Op,
    buffers: Vec<OracleBuf<'a>>,
}

impl<'a> Operands<'a> {
    /// Holds number, kinds and lengths against the contract.
    pub(super) fn check(
        op: Op,
        attrs: u64,
        problem: &Problem,
        scalars: &[u8],
        buffers: &'a mut [OracleBuf<'_>],
    ) -> Result<Operands<'a>, OracleError> {
        let contract = contract::operands(op);
        if buffers.len() != contract.len() {
            return Err(OracleError::OperandCount { op, expected: contract.len(), got: buffers.len() });
        }
        for (index, (buffer, operand)) in buffers.iter().zip(contract).enumerate() {
            let wanted = operand.attr == 0 || attrs & operand.attr != 0;
            check_kind(op, operand, wanted, buffer)?;
            let (len, format) = match buffer {
                OracleBuf::Absent => continue,
                OracleBuf::Plain(bytes) => (bytes.len(), None),
                OracleBuf::Weight(format, bytes) => (bytes.len(), Some(*format)),
                OracleBuf::Out(bytes) => (bytes.len(), None),
            };
            if let Some(expected) = operand_bytes(op, problem, scalars, format, index)?
                && (len as u64) < expected
            {
                return Err(OracleError::Length { op, operand: operand.name, expected, got: len as u64 });
            }
        }
        let buffers = buffers.iter_mut().map(OracleBuf::reborrow).collect();
        Ok(Operands { op, buffers })
    }

    fn name(&self, index: usize) -> &'static str {
        contract::operands(self.op).get(index).map_or("?", |operand| operand.name)
    }

    fn bytes(&self, index: usize, wanted: u64) -> Result<&[u8], OracleError> {
        let bytes: &[u8] = match self.buffers.get(index) {
            Some(OracleBuf::Plain(bytes) | OracleBuf::Weight(_, bytes)) => bytes,
            Some(OracleBuf::Out(bytes)) => bytes,
            Some(OracleBuf::Absent) | None => &[],
        };
        usize::try_from(wanted).ok().and_then(|wanted| bytes.get(..wanted)).ok_or(OracleError::Length {
            op: self.op,
            operand: self.name(index),
            expected: wanted,
            got: bytes.len() as u64,
        })
    }

    /// The first `count` f32 of an operand.
    pub(super) fn f32s(&self, index: usize, count: u64) -> Result<Vec<f32>, OracleError> {
        let bytes = self.bytes(index, count.saturating_mul(4))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
    }

    /// The first `count` u32 of an operand.
    pub(super) fn u32s(&self, index: usize, count: u64) -> Result<Vec<u32>, OracleError> {
        let bytes = self.bytes(index, count.saturating_mul(4))?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
    }

    /// The f32 of an optional operand, if it is there.
    pub(super) fn optional_f32s(&self, index: usize, count: u64) -> Result<Option<Vec<f32>>, OracleError> {
        match self.buffers.get(index) {
            Some(OracleBuf::Absent) | None => Ok(None),
            Some(_) => self.f32s(index, count).map(Some),
        }
    }

    /// A weight's format and bytes.
    pub(super) fn weight(&self, index: usize) -> Result<(Format, &[u8]), OracleError> {
        match self.buffers.get(index) {
            Some(OracleBuf::Weight(format, bytes)) => Ok((*format, bytes)),
            other => Err(OracleError::Kind {
                op: self.op,
                operand: self.name(index),
                expected: "a weight with its format",
                got: other.map_or("nothing", kind),
            }),
        }
    }

    /// All bytes of a plain operand.
    pub(super) fn plain(&self, index: usize) -> &[u8] {
        match self.buffers.get(index) {
            Some(OracleBuf::Plain(bytes) | OracleBuf::Weight(_, bytes)) => bytes,
            Some(OracleBuf::Out(bytes)) => bytes,
            Some(OracleBuf::Absent) | None => &[],
        }
    }

    /// Memory to write.
    pub(super) fn out(&mut self, index: usize) -> Result<&mut [u8], OracleError> {
        let (op, operand) = (self.op, self.name(index));
        match self.buffers.get_mut(index) {
            Some(OracleBuf::Out(bytes)) => Ok(bytes),
            other => Err(OracleError::Kind {
                op,
                operand,
                expected: "writable memory",
                got: other.map_or("nothing", |buffer| kind(buffer)),
            }),
        }
    }

    /// Writes f32 at the start of an operand.
    pub(super) fn write_f32s(&mut self, index: usize, values: &[f32]) -> Result<(), OracleError> {
        self.write_words(index, values.iter().map(|value| value.to_le_bytes()))
    }

    /// Writes u32 at the start of an operand.
    pub(super) fn write_u32s(&mut self, index: usize, values: &[u32]) -> Result<(), OracleError> {
        self.write_words(index, values.iter().map(|value| value.to_le_bytes()))
    }

    fn write_words(
        &mut self,
        index: usize,
        words: impl ExactSizeIterator<Item = [u8; 4]>,
    ) -> Result<(), OracleError> {
        let (op, operand, expected) = (self.op, self.name(index), words.len() as u64 * 4);
        let out = self.out(index)?;
        let got = out.len() as u64;
        if got < expected {
            return Err(OracleError::Length { op, operand, expected, got });
        }
        for (to, from) in out.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = from;
        }
        Ok(())
    }
}

/// This op's scalar block.
pub(super) fn scalars<T: bytemuck::Pod>(op: Op, bytes: &[u8]) -> Result<T, OracleError> {
    scalars::read_step(&[op], 0, bytes).ok_or_else(|| {
        OracleError::size(
            op,
            format!("expected {} bytes of scalars, got {}", scalars::scalar_bytes(op), bytes.len()),
        )
    })
}

fn kind(buffer: &OracleBuf<'_>) -> &'static str {
    match buffer {
        OracleBuf::Absent => "nothing",
        OracleBuf::Plain(_) => "read-only memory",
        OracleBuf::Weight(..) => "a weight with its format",
        OracleBuf::Out(_) => "writable memory",
    }
}

fn check_kind(op: Op, operand: &Operand, wanted: bool, buffer: &OracleBuf<'_>) -> Result<(), OracleError> {
    let expected = match (wanted, operand.access, buffer) {
        // Only relayouts have operands that come and go without an attribute.
        (true, _, OracleBuf::Absent) if op == Op::Relayout && operand.name != "out" => return Ok(()),
        (true, _, OracleBuf::Absent) => "a buffer",
        (true, Access::READ, OracleBuf::Plain(_) | OracleBuf::Weight(..) | OracleBuf::Out(_)) => {
            return Ok(());
        }
        (true, _, OracleBuf::Out(_)) => return Ok(()),
        (true, _, _) => "writable memory",
        (false, _, OracleBuf::Absent) => return Ok(()),
        (false, _, _) => "nothing, as its attribute is not asked for",
    };
    Err(OracleError::Kind { op, operand: operand.name, expected, got: kind(buffer) })
}
