//! GGUF files: a bounded reader over a read-only mapping, and a streaming writer.
//!
//! A file is a header (magic, version, counts), key/value metadata, tensor descriptions, and the
//! tensors' bytes, each tensor aligned. Everything read is treated as hostile: counts, lengths and
//! offsets are checked against caps and against the bytes that are there before anything is
//! allocated, so the memory used is bounded by a small multiple of the file's own size.

pub mod error;
pub mod limits;
mod cursor;
pub mod value;
pub mod metadata;
pub mod tensor;
pub mod mapped;
pub mod file;
pub mod writer;

pub use error::{GgufError, GgufProblem};
pub use file::GgufFile;
pub use metadata::Metadata;
pub use tensor::TensorInfo;
pub use value::{MetaArray, MetaType, MetaValue, StringArray};

#[cfg(test)]
mod hostile_tests;
