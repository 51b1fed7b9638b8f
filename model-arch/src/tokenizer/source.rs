//! What a GGUF file says about its tokenizer, read once and in one place.

use super::error::TokenizerError;
use crate::gguf::{MetaArray, MetaValue, Metadata, StringArray};

/// The keys, so that messages and reads cannot disagree.
pub(crate) mod keys {
    pub(crate) const MODEL: &str = "tokenizer.ggml.model";
    pub(crate) const PRE: &str = "tokenizer.ggml.pre";
    pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
    pub(crate) const TYPES: &str = "tokenizer.ggml.token_type";
    pub(crate) const SCORES: &str = "tokenizer.ggml.scores";
    pub(crate) const MERGES: &str = "tokenizer.ggml.merges";
    pub(crate) const BOS: &str = "tokenizer.ggml.bos_token_id";
    pub(crate) const EOS: &str = "tokenizer.ggml.eos_token_id";
    pub(crate) const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
    pub(crate) const ADD_SPACE: &str = "tokenizer.ggml.add_space_prefix";
    pub(crate) const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
    /// Single ids that end a generation: end of text, of turn, of message, and the markers after which a
    /// code-completion model leaves the file it was filling in.
    pub(crate) const END_IDS: [&str; 6] = [
        EOS,
        "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id",
        "tokenizer.ggml.fim_pad_token_id",
        "tokenizer.ggml.fim_rep_token_id",
        "tokenizer.ggml.fim_sep_token_id",
    ];
    /// The same as lists; some converters write all of a model's end tokens.
    pub(crate) const END_ID_LISTS: [&str; 2] =
        ["tokenizer.ggml.eos_token_ids", "tokenizer.ggml.eog_token_ids"];
}

/// The largest vocabulary accepted; the largest in use has some 262,000 tokens.
pub(crate) const MAX_TOKENS: usize = 1 << 22;
/// The largest list of merges accepted; the largest in use has some 515,000.
pub(crate) const MAX_MERGES: usize = 1 << 23;

/// A tokenizer's raw description, before any of it is checked against the rest.
#[derive(Debug, Clone, Default)]
pub struct TokenizerSource {
    /// The kind: `gpt2` is byte-level BPE, `llama` SentencePiece, `bert` WordPiece, …
    pub model: String,
    /// The pre-tokenizer's name, for kinds that have one.
    pub pre: Option<String>,
    /// The text of each token; the index is the id.
    pub tokens: StringArray,
    /// The type of each token, in the format's numbers; all normal when absent.
    pub token_types: Option<Vec<i32>>,
    /// The score of each token, for kinds that use them.
    pub scores: Option<Vec<f32>>,
    /// Merge rules, `left right`, best first.
    pub merges: Option<StringArray>,
    /// The token that begins a text.
    pub bos: Option<u32>,
    /// The token that ends a text.
    pub eos: Option<u32>,
    /// Whether a prompt starts with `bos`; `None` leaves it to the pre-tokenizer's habit.
    pub add_bos: Option<bool>,
    /// Whether a text ends with `eos`.
    pub add_eos: Option<bool>,
    /// Whether a text begins with one more space, for kinds with scores; `None` is yes.
    pub add_space_prefix: Option<bool>,
    /// Every id that the file names as an end of generation, with the key that named it.
    pub end_ids: Vec<(&'static str, i64)>,
}

impl TokenizerSource {
    /// Reads the keys below `tokenizer.ggml`.
    ///
    /// # Errors
    /// When `model` or `tokens` is missing, or a key has another type than the format gives it.
    pub fn from_metadata(metadata: &Metadata) -> Result<Self, TokenizerError> {
        let missing = |key| TokenizerError::MissingKey {
            key,
            remedy: "the file carries no tokenizer: convert the model again with its tokenizer",
        };
        let mut end_ids = Vec::new();
        for key in keys::END_IDS {
            end_ids.extend(metadata.u32(key)?.map(|id| (key, i64::from(id))));
        }
        for key in keys::END_ID_LISTS {
            match metadata.get(key) {
                Some(MetaValue::Array(MetaArray::U32(ids))) => {
                    end_ids.extend(ids.iter().map(|id| (key, i64::from(*id))))
                }
                Some(_) => {
                    end_ids.extend(metadata.i32s(key)?.into_iter().flatten().map(|id| (key, i64::from(*id))))
                }
                None => {}
            }
        }
        Ok(Self {
            model: metadata.str(keys::MODEL)?.ok_or_else(|| missing(keys::MODEL))?.to_owned(),
            pre: metadata.str(keys::PRE)?.map(str::to_owned),
            tokens: metadata.strings(keys::TOKENS)?.ok_or_else(|| missing(keys::TOKENS))?.clone(),
            token_types: metadata.i32s(keys::TYPES)?.map(<[_]>::to_vec),
            scores: metadata.f32s(keys::SCORES)?.map(<[_]>::to_vec),
            merges: metadata.strings(keys::MERGES)?.cloned(),
            bos: metadata.u32(keys::BOS)?,
            eos: metadata.u32(keys::EOS)?,
            add_bos: metadata.bool(keys::ADD_BOS)?,
            add_eos: metadata.bool(keys::ADD_EOS)?,
            add_space_prefix: metadata.bool(keys::ADD_SPACE)?,
            end_ids,
        })
    }
}
