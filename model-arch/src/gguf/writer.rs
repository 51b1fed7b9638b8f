//! Writing a GGUF file as a stream: the header first, then each tensor's bytes in order.

use super::error::GgufProblem;
use super::limits;
use super::tensor::tensor_bytes;
use super::value::{MetaArray, MetaValue};
use cajeta_catalog::quant::Format;
use std::collections::HashSet;
use std::io::Write;

/// Why a file could not be written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what its fields are")]
pub enum WriteError {
    #[error("writing the GGUF file failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("cannot describe the GGUF file: {0}")]
    Header(#[from] GgufProblem),
    #[error("tensor data does not match the header: {got} more bytes than the tensors take")]
    Surplus { got: usize },
    #[error("tensor data does not match the header: tensor {tensor:?} still lacks {missing} bytes")]
    Missing { tensor: String, missing: u64 },
}

/// What a file is going to hold: metadata and the tensors' names, shapes and formats.
#[derive(Debug)]
pub struct Header {
    alignment: u32,
    entries: Vec<(String, MetaValue)>,
    tensors: Vec<Slot>,
    names: HashSet<String>,
}

/// A tensor to be written.
#[derive(Clone, Debug)]
struct Slot {
    name: String,
    dims: Vec<u64>,
    format: Format,
    bytes: u64,
}

impl Default for Header {
    fn default() -> Self {
        Header {
            alignment: limits::DEFAULT_ALIGNMENT,
            entries: Vec::new(),
            tensors: Vec::new(),
            names: HashSet::new(),
        }
    }
}

impl Header {
    /// An empty header with the usual alignment of 32.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the alignment of tensor data and records it, when it is not the usual one.
    ///
    /// # Errors
    /// When it is not a power of two within the cap.
    pub fn align(&mut self, alignment: u32) -> Result<(), WriteError> {
        if !alignment.is_power_of_two() || alignment > limits::MAX_ALIGNMENT {
            return Err(GgufProblem::Alignment(alignment.into()).into());
        }
        self.alignment = alignment;
        self.set("general.alignment", alignment);
        Ok(())
    }

    /// Sets a key, replacing an earlier value.
    pub fn set(&mut self, key: &str, value: impl Into<MetaValue>) {
        let value = value.into();
        match self.entries.iter_mut().find(|(existing, _)| existing == key) {
            Some((_, slot)) => *slot = value,
            None => self.entries.push((key.into(), value)),
        }
    }

    /// Announces the next tensor and answers how many bytes it takes.
    ///
    /// # Errors
    /// When the shape and format have no size or the name is taken.
    pub fn tensor(&mut self, name: &str, dims: &[u64], format: Format) -> Result<u64, WriteError> {
        let bytes = tensor_bytes(name, dims, format)?;
        if !self.names.insert(name.into()) {
            return Err(GgufProblem::DuplicateTensor(name.into()).into());
        }
        self.tensors.push(Slot { name: name.into(), dims: dims.into(), format, bytes });
        Ok(bytes)
    }

    /// Writes the header to `sink`; the tensors' bytes follow through the writer returned.
    ///
    /// # Errors
    /// When writing fails or the tensors' sizes together overflow.
    pub fn begin<W: Write>(self, mut sink: W) -> Result<TensorWriter<W>, WriteError> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(b"GGUF");
        bytes.extend_from_slice(&3u32.to_le_bytes());
        bytes.extend_from_slice(&(self.tensors.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&(self.entries.len() as u64).to_le_bytes());
        for (key, value) in &self.entries {
            put_str(&mut bytes, key);
            bytes.extend_from_slice(&(value.meta_type() as u32).to_le_bytes());
            put_value(&mut bytes, value);
        }
        let alignment = u64::from(self.alignment);
        let mut offset = 0u64;
        for Slot { name, dims, format, bytes: size } in &self.tensors {
            put_str(&mut bytes, name);
            bytes.extend_from_slice(&(dims.len() as u32).to_le_bytes());
            for dim in dims {
                bytes.extend_from_slice(&dim.to_le_bytes());
            }
            bytes.extend_from_slice(&format.id().to_le_bytes());
            bytes.extend_from_slice(&offset.to_le_bytes());
            let end = offset.checked_add(*size).and_then(|end| end.checked_next_multiple_of(alignment));
            offset =
                end.ok_or_else(|| GgufProblem::SizeOverflow { tensor: name.clone(), dims: dims.clone() })?;
        }
        bytes.resize(bytes.len().next_multiple_of(self.alignment as usize), 0);
        sink.write_all(&bytes)?;
        Ok(TensorWriter { sink, alignment, pending: self.tensors.into_iter(), current: None })
    }
}

/// Takes the tensors' bytes in the order the header announced them.
#[derive(Debug)]
pub struct TensorWriter<W: Write> {
    sink: W,
    alignment: u64,
    pending: std::vec::IntoIter<Slot>,
    /// The tensor being written and the bytes it still lacks.
    current: Option<(Slot, u64)>,
}

impl<W: Write> TensorWriter<W> {
    /// Writes the next bytes, which may end anywhere: inside a tensor or several tensors further.
    ///
    /// # Errors
    /// When writing fails or more bytes come than the tensors take.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        while !bytes.is_empty() {
            let (slot, missing) = match self.current.take() {
                Some(current) => current,
                None => match self.pending.next() {
                    Some(slot) => (slot.clone(), slot.bytes),
                    None => return Err(WriteError::Surplus { got: bytes.len() }),
                },
            };
            let now = usize::try_from(missing).unwrap_or(usize::MAX).min(bytes.len());
            let (head, rest) = bytes.split_at(now);
            self.sink.write_all(head)?;
            bytes = rest;
            let missing = missing - now as u64;
            if missing > 0 {
                self.current = Some((slot, missing));
            } else {
                let padding = slot.bytes.next_multiple_of(self.alignment) - slot.bytes;
                self.sink.write_all(&vec![0; padding as usize])?;
            }
        }
        Ok(())
    }

    /// Flushes and returns the sink.
    ///
    /// # Errors
    /// When flushing fails or a tensor still lacks bytes.
    pub fn finish(mut self) -> Result<W, WriteError> {
        let next = self.pending.next().map(|slot| (slot.clone(), slot.bytes));
        if let Some((slot, missing)) = self.current.take().or(next) {
            return Err(WriteError::Missing { tensor: slot.name, missing });
        }
        self.sink.flush()?;
        Ok(self.sink)
    }
}

fn put_str(bytes: &mut Vec<u8>, string: &str) {
    bytes.extend_from_slice(&(string.len() as u64).to_le_bytes());
    bytes.extend_from_slice(string.as_bytes());
}

fn put_value(bytes: &mut Vec<u8>, value: &MetaValue) {
    match value {
        MetaValue::U8(v) => bytes.push(*v),
        MetaValue::I8(v) => bytes.extend_from_slice(&v.to_le_bytes()),
        MetaValue::U16(v) => bytes.extend_from_slice(&v.to_le_bytes()),
        MetaValue::I16(v) => bytes.extend_from_slice(&v.to_le_bytes()),
        MetaValue::U32(v) => bytes.extend_from_slice(&v.to_le_bytes()),
        MetaValue::I32(v) => bytes.extend_from_slice(&v.to_le_bytes()),
        MetaValue::F32(v) => bytes.extend_from_slice(&v.to_le_bytes()),
        MetaValue::Bool(v) => bytes.push((*v).into()),
        MetaValue::String(v) => put_str(bytes, v),
        MetaValue::Array(v) => put_array(bytes, v),
        MetaValue::U64(v) => bytes.extend_from_slice(&v.to_le_bytes()),
        MetaValue::I64(v) => bytes.extend_from_slice(&v.to_le_bytes()),
        MetaValue::F64(v) => bytes.extend_from_slice(&v.to_le_bytes()),
    }
}

fn put_array(bytes: &mut Vec<u8>, array: &MetaArray) {
    bytes.extend_from_slice(&(array.element_type() as u32).to_le_bytes());
    bytes.extend_from_slice(&(array.len() as u64).to_le_bytes());
    macro_rules! numbers {
        ($numbers:expr) => {
            $numbers.iter().for_each(|v| bytes.extend_from_slice(&v.to_le_bytes()))
        };
    }
    match array {
        MetaArray::U8(v) => bytes.extend_from_slice(v),
        MetaArray::I8(v) => numbers!(v),
        MetaArray::U16(v) => numbers!(v),
        MetaArray::I16(v) => numbers!(v),
        MetaArray::U32(v) => numbers!(v),
        MetaArray::I32(v) => numbers!(v),
        MetaArray::F32(v) => numbers!(v),
        MetaArray::Bool(v) => bytes.extend(v.iter().map(|&truth| u8::from(truth))),
        MetaArray::String(v) => v.iter().for_each(|string| put_str(bytes, string)),
        MetaArray::Array(v) => v.iter().for_each(|nested| put_array(bytes, nested)),
        MetaArray::U64(v) => numbers!(v),
        MetaArray::I64(v) => numbers!(v),
        MetaArray::F64(v) => numbers!(v),
    }
}
