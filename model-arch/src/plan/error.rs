//! Why a file's tensors do not make the model its metadata describes.

use std::path::PathBuf;

use thiserror::Error;

/// A plan that cannot be built.
#[derive(Debug, Error)]
#[error("{path}: {problem}", path = path.display())]
pub struct PlanError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: PlanProblem,
}

/// What is wrong with a file's tensors.
#[derive(Debug, Error, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PlanProblem {
    #[error("tensor `{tensor}` is missing; the file is incomplete or was converted wrongly")]
    Missing { tensor: String },
    #[error(
        "tensor `{tensor}` has shape {found:?}, expected {expected:?} (innermost first); the metadata and the tensors disagree"
    )]
    Shape { tensor: String, expected: Vec<u64>, found: Vec<u64> },
    #[error("tensor `{tensor}` is stored as {found}, expected F32; convert the file again")]
    VectorFormat { tensor: String, found: &'static str },
    #[error("tensor `{tensor}` is stored as {found}, which this build does not decode; it decodes {known}")]
    Format { tensor: String, found: &'static str, known: String },
    #[error(
        "tensor `{tensor}` is not part of architecture `{architecture}`; the file is of another variant than it says"
    )]
    Unexpected { tensor: String, architecture: String },
    #[error("architecture `{found}` has no plan in this build")]
    Architecture { found: String },
    #[error("the fused projections would have more than 2^32 rows; the metadata is damaged")]
    FusedTooLarge,
    #[error("heads with {k} key and {v} value elements are not supported; both must be equal")]
    HeadDims { k: u32, v: u32 },
}
