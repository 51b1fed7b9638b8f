//! What can be wrong with a GGUF file, said with the file, the key or tensor, and what to do.

use super::value::MetaType;
use cajeta_catalog::quant::Format;
use std::path::{Path, PathBuf};

/// A GGUF file that cannot be used, and why.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct GgufError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it; part of the message, so not a separate source.
    pub problem: Box<GgufProblem>,
}

impl GgufError {
    pub(super) fn new(path: &Path, problem: GgufProblem) -> Self {
        GgufError { path: path.to_path_buf(), problem: Box::new(problem) }
    }
}

/// What is wrong with a GGUF file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant's message says what its fields are")]
pub enum GgufProblem {
    #[error("cannot open the model file: {0}")]
    Open(std::io::Error),
    #[error("expected a model file, this is {0}")]
    NotAFile(&'static str),
    #[error("cannot map the model file into memory: {0}")]
    Map(std::io::Error),
    #[error("not a GGUF file: expected the magic \"GGUF\", got {found:?} ({hint})")]
    NotGguf { found: String, hint: &'static str },
    #[error(
        "this is a big-endian GGUF file; only little-endian files are read: convert the model again for this machine"
    )]
    BigEndian,
    #[error("GGUF version 1 is not read, only 2 and 3: convert the model again with a current converter")]
    Version1,
    #[error("GGUF version {0} is not read, only 2 and 3: the file is damaged or newer than this build")]
    Version(u32),
    #[error(
        "{what} needs {wanted} bytes at offset {at} but the file ends {left} bytes later: it is cut short or damaged (was the download complete?)"
    )]
    Truncated { what: String, at: u64, wanted: u64, left: u64 },
    #[error("{what} is {found}, the cap is {cap}: the file is damaged")]
    OverCap { what: String, found: u64, cap: u64 },
    #[error("{what} is not valid UTF-8: the file is damaged or written by a faulty converter")]
    NotUtf8 { what: String },
    #[error("metadata key number {0} is empty")]
    EmptyKey(u64),
    #[error("metadata key {0:?} stands twice in the file")]
    DuplicateKey(String),
    #[error("metadata key {key:?} has value type {id}; types are 0 to 12")]
    ValueType { key: String, id: u32 },
    #[error("metadata key {key:?} holds the bool {found}; a bool is 0 or 1")]
    Bool { key: String, found: u8 },
    #[error("metadata key {key:?} is missing")]
    MissingKey { key: String },
    #[error("metadata key {key:?}: expected {expected}, got {found}")]
    WrongType { key: String, expected: &'static str, found: MetaType },
    #[error("metadata key {key:?}: expected {expected}, got {found}")]
    OutOfRange { key: String, expected: &'static str, found: String },
    #[error("general.alignment is {0}; expected a power of two from 1 to {max}", max = super::limits::MAX_ALIGNMENT)]
    Alignment(u64),
    #[error("tensor number {0} has an empty name")]
    EmptyTensorName(u64),
    #[error("tensor {0:?} stands twice in the file")]
    DuplicateTensor(String),
    #[error("tensor {tensor:?} has {found} dimensions; expected 1 to {max}", max = super::limits::MAX_DIMS)]
    DimCount { tensor: String, found: u32 },
    #[error("tensor {tensor:?} has the shape {dims:?}; no dimension may be zero")]
    ZeroDim { tensor: String, dims: Vec<u64> },
    #[error("tensor {tensor:?} has the shape {dims:?}, whose size overflows")]
    SizeOverflow { tensor: String, dims: Vec<u64> },
    #[error("tensor {tensor:?} has type {}, which this build does not know: requantise the model", name_of(*id))]
    TensorType { tensor: String, id: u32 },
    #[error("tensor {tensor:?} has rows of {row} values; {format} needs a multiple of {}", format.block_len())]
    PartialBlock { tensor: String, format: Format, row: u64 },
    #[error(
        "tensor {tensor:?} starts at data offset {offset}, which is not a multiple of the alignment {alignment}"
    )]
    Misaligned { tensor: String, offset: u64, alignment: u32 },
    #[error(
        "tensor {tensor:?} needs {bytes} bytes at data offset {offset} but the data section has {available}: the file is cut short or damaged (was the download complete?)"
    )]
    OutsideFile { tensor: String, offset: u64, bytes: u64, available: u64 },
    #[error("tensors {first:?} and {second:?} overlap in the file")]
    Overlap { first: String, second: String },
}

/// A type id with its name where it ever had one.
fn name_of(id: u32) -> String {
    match cajeta_catalog::quant::type_name(id) {
        Some(name) => format!("{name} (withdrawn, id {id})"),
        None => format!("id {id}"),
    }
}
