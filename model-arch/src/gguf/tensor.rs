//! The tensor table: names, shapes, formats and where the bytes lie, checked against the file.

use super::cursor::Cursor;
use super::error::GgufProblem;
use super::limits;
use super::metadata::{read_str, truncated};
use cajeta_catalog::quant::Format;
use std::collections::HashMap;

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// Its name, unique in the file.
    pub name: String,
    /// Its shape, innermost first: `dims[0]` values lie contiguously and form a row. One to four, none zero.
    pub dims: Vec<u64>,
    /// How its values are stored.
    pub format: Format,
    /// Where its bytes start, from the start of the file.
    pub offset: u64,
    /// How many bytes it takes.
    pub bytes: u64,
}

impl TensorInfo {
    /// Values in one row.
    pub fn row_len(&self) -> u64 {
        self.dims.first().copied().unwrap_or(0)
    }

    /// The number of rows over all outer dimensions; checked not to overflow when the file was read.
    pub fn n_rows(&self) -> u64 {
        self.dims.iter().skip(1).product()
    }

    /// The number of values; checked not to overflow when the file was read.
    pub fn n_values(&self) -> u64 {
        self.dims.iter().product()
    }
}

/// Bytes of a tensor of this shape and format; an error naming `tensor` when there is no such size.
pub(super) fn tensor_bytes(tensor: &str, dims: &[u64], format: Format) -> Result<u64, GgufProblem> {
    if dims.is_empty() || dims.len() > limits::MAX_DIMS as usize {
        return Err(GgufProblem::DimCount { tensor: tensor.into(), found: dims.len() as u32 });
    }
    if dims.contains(&0) {
        return Err(GgufProblem::ZeroDim { tensor: tensor.into(), dims: dims.into() });
    }
    let overflow = || GgufProblem::SizeOverflow { tensor: tensor.into(), dims: dims.into() };
    let values = dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim)).ok_or_else(overflow)?;
    // The established tools hold sizes as signed 64-bit numbers, and so may kernels.
    i64::try_from(values).map_err(|_| overflow())?;
    let row = dims[0];
    if !row.is_multiple_of(format.block_len() as u64) {
        return Err(GgufProblem::PartialBlock { tensor: tensor.into(), format, row });
    }
    let bytes = format.row_bytes(row).and_then(|row_bytes| row_bytes.checked_mul(values / row));
    bytes.filter(|&bytes| i64::try_from(bytes).is_ok()).ok_or_else(overflow)
}

/// The tensor table with offsets still relative to the data section.
pub(super) struct TensorTable {
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) positions: HashMap<Box<str>, usize>,
}

impl TensorTable {
    /// Reads `count` descriptions.
    pub(super) fn parse(cursor: &mut Cursor<'_>, count: u64) -> Result<Self, GgufProblem> {
        // A description takes at least 33 bytes, so the file bounds the count too.
        let capacity = count.min(cursor.left() / 33) as usize;
        let mut tensors = Vec::with_capacity(capacity);
        let mut positions = HashMap::with_capacity(capacity);
        for number in 0..count {
            let tensor = parse_one(cursor, number)?;
            if positions.insert(tensor.name.as_str().into(), tensors.len()).is_some() {
                return Err(GgufProblem::DuplicateTensor(tensor.name));
            }
            tensors.push(tensor);
        }
        Ok(TensorTable { tensors, positions })
    }

    /// Makes offsets absolute, after checking that each tensor is aligned, inside a data section of
    /// `available` bytes starting at `start`, and disjoint from every other.
    pub(super) fn place(&mut self, start: u64, available: u64, alignment: u32) -> Result<(), GgufProblem> {
        for TensorInfo { name, offset, bytes, .. } in &self.tensors {
            if !offset.is_multiple_of(alignment.into()) {
                return Err(GgufProblem::Misaligned { tensor: name.clone(), offset: *offset, alignment });
            }
            if *offset > available || *bytes > available - offset {
                let (tensor, offset, bytes) = (name.clone(), *offset, *bytes);
                return Err(GgufProblem::OutsideFile { tensor, offset, bytes, available });
            }
        }
        let mut by_offset: Vec<&TensorInfo> = self.tensors.iter().collect();
        by_offset.sort_unstable_by_key(|tensor| tensor.offset);
        for pair in by_offset.windows(2) {
            if let [first, second] = pair
                && second.offset - first.offset < first.bytes
            {
                return Err(GgufProblem::Overlap { first: first.name.clone(), second: second.name.clone() });
            }
        }
        for tensor in &mut self.tensors {
            // Inside the file, as checked above, so the sum is at most the file's size.
            tensor.offset += start;
        }
        Ok(())
    }
}

fn parse_one(cursor: &mut Cursor<'_>, number: u64) -> Result<TensorInfo, GgufProblem> {
    let name =
        read_str(cursor, limits::MAX_TENSOR_NAME_BYTES, || format!("the name of tensor number {number}"))?;
    if name.is_empty() {
        return Err(GgufProblem::EmptyTensorName(number));
    }
    let short = |short| truncated(format!("the description of tensor {name:?}"))(short);
    let n_dims = cursor.u32().map_err(short)?;
    if n_dims == 0 || n_dims > limits::MAX_DIMS {
        return Err(GgufProblem::DimCount { tensor: name.into(), found: n_dims });
    }
    let dims = (0..n_dims).map(|_| cursor.u64()).collect::<Result<Vec<_>, _>>().map_err(short)?;
    let id = cursor.u32().map_err(short)?;
    let format = Format::from_id(id).ok_or_else(|| GgufProblem::TensorType { tensor: name.into(), id })?;
    let offset = cursor.u64().map_err(short)?;
    let bytes = tensor_bytes(name, &dims, format)?;
    Ok(TensorInfo { name: name.into(), dims, format, offset, bytes })
}
