//! Why a model's configuration cannot be used.

use crate::gguf::GgufError;
use std::path::PathBuf;

/// A model file whose configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A key is missing or has the wrong type.
    #[error(transparent)]
    Gguf(#[from] GgufError),
    /// The keys are there but what they say cannot be run.
    #[error("{}: {problem}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: ConfigProblem,
    },
}

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each variant's message says what its fields are")]
pub enum ConfigProblem {
    #[error("unknown architecture {found:?}: this build runs {}", super::ARCHITECTURES.join(", "))]
    Architecture { found: String },
    #[error("this file holds {found:?} (general.type), not a model: give the model it belongs to")]
    NotAModel { found: String },
    #[error("this file is one of {parts} parts (split.count): merge the parts into one file first")]
    Split { parts: u32 },
    #[error("metadata key {key:?} has one value per layer; this build runs models whose layers are alike")]
    PerLayer { key: String },
    #[error("metadata key {key:?} is {found}; expected 1 to {cap}")]
    Range { key: String, found: u32, cap: u32 },
    #[error("metadata key {key:?} is {found}; expected a number above 0 and at most {cap}")]
    FloatRange { key: String, found: f32, cap: f32 },
    #[error("{n_head} query heads cannot share {n_head_kv} key/value heads: expected a divisor")]
    HeadGroups { n_head: u32, n_head_kv: u32 },
    #[error("width {n_embd} does not split into {n_head} heads, and {key:?} does not give their size")]
    HeadWidth { n_embd: u32, n_head: u32, key: String },
    #[error("rotary dimension {rope_dim} ({key:?}) must be even and at most the head size {head_dim}")]
    RopeDim { key: String, rope_dim: u32, head_dim: u32 },
    #[error(
        "rope scaling {found:?} ({key:?}) is not known to this build; it knows none, linear, yarn and longrope"
    )]
    RopeScaling { key: String, found: String },
    #[error(
        "metadata key {key:?} lists {found} values; expected one boolean or integer for each of {n_layer} layers"
    )]
    SlidingPattern { key: String, n_layer: u32, found: usize },
    #[error("{experts} experts ({key:?}): this build runs dense models only")]
    Experts { key: String, experts: u32 },
    #[error("tensor {tensor:?} is missing")]
    MissingTensor { tensor: &'static str },
    #[error("tensor {tensor:?} has the shape {dims:?}; expected [{n_embd}, vocabulary of at most {cap}]")]
    EmbeddingShape { tensor: &'static str, dims: Vec<u64>, n_embd: u32, cap: u32 },
    #[error("the tokenizer has {tokens} tokens but the embedding table only {n_vocab} rows")]
    TokensWithoutRows { tokens: usize, n_vocab: u32 },
}
