//! What can be wrong with a vocabulary or with text given to it, one variant per remedy.

use crate::gguf::GgufError;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a tokenizer could not be built, or an input could not be tokenized.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A key that the tokenizer cannot do without is absent.
    #[error("tokenizer: metadata key `{key}` is missing; {remedy}")]
    MissingKey {
        /// The GGUF key.
        key: &'static str,
        /// What the operator can do.
        remedy: &'static str,
    },
    /// A key is there with another type than the format gives it.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// What is wrong with the tokenizer that a file carries.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong; part of the message, so not a separate source.
        problem: Box<TokenizerError>,
    },
    /// A score that orders nothing.
    #[error(
        "tokenizer: the score of token {id} in `tokenizer.ggml.scores` is not a number; the file is damaged"
    )]
    ScoreNotANumber {
        /// The token.
        id: usize,
    },
    /// `tokenizer.ggml.model` names a kind of tokenizer that is not built in.
    #[error(
        "tokenizer: `tokenizer.ggml.model` is `{model}`, which is not supported (supported: {supported})"
    )]
    UnsupportedModel {
        /// The name in the file.
        model: String,
        /// The names that would have been accepted.
        supported: String,
    },
    /// `tokenizer.ggml.pre` names a pre-tokenizer that is not built in.
    #[error(
        "tokenizer: pre-tokenizer `{name}` (`tokenizer.ggml.pre`) is unknown, and another one would give wrong \
         tokens (known: {known})"
    )]
    UnknownPretokenizer {
        /// The name in the file.
        name: String,
        /// The names that would have been accepted.
        known: String,
    },
    /// The merge rules are contradictory.
    #[error("tokenizer: the merge rules cannot be used: {reason}; the file is damaged")]
    BadRules {
        /// The library's words.
        reason: String,
    },
    /// An array is larger than any real vocabulary.
    #[error(
        "tokenizer: {what} has {got} entries, more than the {limit} that are accepted; the file is damaged"
    )]
    TooLarge {
        /// The array measured.
        what: &'static str,
        /// Its size.
        got: usize,
        /// The largest size accepted.
        limit: usize,
    },
    /// An array that runs parallel to the tokens has another length.
    #[error("tokenizer: `{key}` has {got} entries for {tokens} tokens; the file is damaged")]
    CountMismatch {
        /// The GGUF key of the array.
        key: &'static str,
        /// Its length.
        got: usize,
        /// How many tokens there are.
        tokens: usize,
    },
    /// Two ids have the same text.
    #[error("tokenizer: token {text:?} appears twice, as ids {first} and {second}; the file is damaged")]
    DuplicateToken {
        /// The text both have.
        text: String,
        /// The lower id.
        first: u32,
        /// The higher id.
        second: u32,
    },
    /// A special token's id lies outside the vocabulary.
    #[error("tokenizer: `{key}` is {id}, but the vocabulary has {n_vocab} tokens; the file is damaged")]
    SpecialIdOutOfRange {
        /// The GGUF key.
        key: &'static str,
        /// The id found there.
        id: i64,
        /// The size of the vocabulary.
        n_vocab: usize,
    },
    /// `add_bos_token` or `add_eos_token` is true in a file that does not say which token that is.
    #[error("tokenizer: `{flag}` is true, but `{key}` is missing; set the id or clear the flag")]
    MissingSpecial {
        /// The flag.
        flag: &'static str,
        /// The key that should give the id.
        key: &'static str,
    },
    /// A merge rule that cannot be applied.
    #[error("tokenizer: merge {index} ({text:?}) of `tokenizer.ggml.merges` {reason}; the file is damaged")]
    BadMerge {
        /// Position in the list.
        index: usize,
        /// The rule as written.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A search automaton over this vocabulary or pattern could not be built.
    #[error("tokenizer: {what} cannot be compiled: {detail}")]
    Automaton {
        /// The thing compiled.
        what: String,
        /// The compiler's own words.
        detail: String,
    },
    /// Bytes given as text are not UTF-8.
    #[error(
        "tokenize: the input is not UTF-8: byte {byte:#04x} at offset {offset} starts no character; convert it to UTF-8 first"
    )]
    NotUtf8 {
        /// Offset of the first offending byte.
        offset: usize,
        /// That byte.
        byte: u8,
    },
    /// A token id given by a caller lies outside the vocabulary.
    #[error("token id {id} at position {position} is outside the vocabulary of {n_vocab} tokens")]
    UnknownId {
        /// The id.
        id: u32,
        /// Where it stood in the list.
        position: usize,
        /// The size of the vocabulary.
        n_vocab: usize,
    },
}

impl TokenizerError {
    /// This error with the file that it is about, unless it names that already.
    pub(super) fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Metadata(_) | Self::File { .. } => self,
            problem => Self::File { path: path.to_path_buf(), problem: Box::new(problem) },
        }
    }
}
