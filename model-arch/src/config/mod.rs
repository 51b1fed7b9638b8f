//! The checked configuration of a model: what the metadata says about its shape, with nothing absurd left.

pub mod error;
mod keys;
pub mod rope;
pub mod attention;

pub use attention::AttentionConfig;
pub use error::{ConfigError, ConfigProblem};
pub use rope::{RopeConfig, RopeScaling};

use crate::gguf::GgufFile;
use keys::Keys;

/// Architectures this build runs, as `general.architecture` names them.
pub const ARCHITECTURES: &[&str] = &["llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"];

/// The tensor whose outer dimension is the vocabulary.
pub const EMBEDDING_TENSOR: &str = "token_embd.weight";

/// Caps above every published model and low enough that products of two fit 64 bits with room.
mod cap {
    pub(super) const VOCAB: u32 = 16 << 20;
    pub(super) const LAYERS: u32 = 4096;
    pub(super) const WIDTH: u32 = 1 << 20;
    pub(super) const FEED_FORWARD: u32 = 1 << 22;
    pub(super) const HEADS: u32 = 1 << 14;
    pub(super) const HEAD_DIM: u32 = 1 << 13;
    pub(super) const CONTEXT: u32 = 1 << 30;
}

/// The shape of a decoder model; every number is nonzero and within its cap.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// The architecture, one of [`ARCHITECTURES`].
    pub architecture: String,
    /// The model's own name, when the file has one.
    pub name: Option<String>,
    /// Rows of the embedding table, so every token id below this has one.
    pub n_vocab: u32,
    /// The context length the model was trained for.
    pub n_ctx_train: u32,
    /// Width of the hidden state.
    pub n_embd: u32,
    /// Number of layers.
    pub n_layer: u32,
    /// Width of the feed-forward part.
    pub n_ff: u32,
    /// Query heads.
    pub n_head: u32,
    /// Key/value heads; divides `n_head`.
    pub n_head_kv: u32,
    /// Values per query and key head.
    pub head_dim_k: u32,
    /// Values per value head.
    pub head_dim_v: u32,
    /// Rotary position embedding.
    pub rope: RopeConfig,
    /// Windows, scale and cap of the attention.
    pub attention: AttentionConfig,
    /// Logits pass through `cap * tanh(logit / cap)`.
    pub logit_softcap: Option<f32>,
    /// Epsilon of the root-mean-square norms.
    pub norm_eps: f32,
}

impl ModelConfig {
    /// Reads and checks the configuration of `file`.
    ///
    /// # Errors
    /// When the architecture is not one of [`ARCHITECTURES`], the file is a part or an adapter, or a
    /// key is missing, of the wrong type, out of range, or at odds with another.
    pub fn from_gguf(file: &GgufFile) -> Result<Self, ConfigError> {
        let keys = Keys::new(file)?;
        let n_embd = keys.require("embedding_length", cap::WIDTH)?;
        let n_layer = keys.require("block_count", cap::LAYERS)?;
        let n_head = keys.require("attention.head_count", cap::HEADS)?;
        let n_head_kv = keys.optional("attention.head_count_kv", cap::HEADS)?.unwrap_or(n_head);
        if !n_head.is_multiple_of(n_head_kv) {
            return Err(keys.problem(ConfigProblem::HeadGroups { n_head, n_head_kv }));
        }
        let head_dim = |key| match keys.optional(key, cap::HEAD_DIM)? {
            Some(head_dim) => Ok(head_dim),
            None if n_embd.is_multiple_of(n_head) && n_embd / n_head <= cap::HEAD_DIM => Ok(n_embd / n_head),
            None => Err(keys.problem(ConfigProblem::HeadWidth { n_embd, n_head, key: keys.full(key) })),
        };
        let head_dim_k = head_dim("attention.key_length")?;
        let head_dim_v = head_dim("attention.value_length")?;
        let rope = RopeConfig::read(&keys, head_dim_k)?;
        // The largest Gemma 2 and 3 divide by the root of the width per head instead of the head size.
        let scaled_dim = match (keys.architecture(), n_layer) {
            ("gemma2", 46) | ("gemma3", 62) => n_embd / n_head,
            _ => head_dim_k,
        };
        let scale = 1.0 / (scaled_dim.max(1) as f32).sqrt();
        let attention = AttentionConfig::read(&keys, n_layer, &rope, scale)?;
        if let Some(experts) = keys.integer("expert_count")?.filter(|&experts| experts > 0) {
            return Err(keys.problem(ConfigProblem::Experts { key: keys.full("expert_count"), experts }));
        }
        Ok(ModelConfig {
            architecture: keys.architecture().into(),
            name: file.metadata().str("general.name")?.map(str::to_owned),
            n_vocab: read_vocab(file, &keys, n_embd)?,
            n_ctx_train: keys.require("context_length", cap::CONTEXT)?,
            n_embd,
            n_layer,
            n_ff: keys.require("feed_forward_length", cap::FEED_FORWARD)?,
            n_head,
            n_head_kv,
            head_dim_k,
            head_dim_v,
            rope,
            attention,
            logit_softcap: keys.optional_positive("final_logit_softcapping", f32::MAX)?,
            norm_eps: keys.positive("attention.layer_norm_rms_epsilon", 1.0)?,
        })
    }

    /// The rotary embedding of a layer.
    pub fn rope_of(&self, layer: u32) -> &RopeConfig {
        let slides = self.window_of(layer) > 0;
        self.attention.sliding_rope.as_ref().filter(|_| slides).unwrap_or(&self.rope)
    }

    /// Positions a query of a layer sees, its own included; 0 for all.
    pub fn window_of(&self, layer: u32) -> u32 {
        self.attention.windows.get(layer as usize).copied().unwrap_or(0)
    }

    /// Query heads that share one key/value head.
    pub fn group_size(&self) -> u32 {
        self.n_head / self.n_head_kv
    }

    /// Values of all query heads together.
    pub fn n_embd_q(&self) -> u32 {
        self.n_head * self.head_dim_k
    }

    /// Values of all key heads together.
    pub fn n_embd_k(&self) -> u32 {
        self.n_head_kv * self.head_dim_k
    }

    /// Values of all value heads together.
    pub fn n_embd_v(&self) -> u32 {
        self.n_head_kv * self.head_dim_v
    }
}

/// The embedding table decides: `vocab_size` keys are often stale, but a token without a row cannot run.
fn read_vocab(file: &GgufFile, keys: &Keys<'_>, n_embd: u32) -> Result<u32, ConfigError> {
    let missing = || keys.problem(ConfigProblem::MissingTensor { tensor: EMBEDDING_TENSOR });
    let table = file.tensor(EMBEDDING_TENSOR).ok_or_else(missing)?;
    let n_vocab = match *table.dims {
        [width, rows] if width == u64::from(n_embd) => u32::try_from(rows).ok(),
        _ => None,
    };
    let n_vocab = n_vocab.filter(|&rows| rows <= cap::VOCAB).ok_or_else(|| {
        let dims = table.dims.clone();
        keys.problem(ConfigProblem::EmbeddingShape {
            tensor: EMBEDDING_TENSOR,
            dims,
            n_embd,
            cap: cap::VOCAB,
        })
    })?;
    let tokens = file.metadata().strings("tokenizer.ggml.tokens")?.map_or(0, |tokens| tokens.len());
    if tokens as u64 > u64::from(n_vocab) {
        return Err(keys.problem(ConfigProblem::TokensWithoutRows { tokens, n_vocab }));
    }
    Ok(n_vocab)
}

#[cfg(test)]
mod tests;
