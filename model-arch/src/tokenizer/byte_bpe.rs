//! Byte-level BPE: text is cut into words, words are spelled byte by byte, and the `tokenizers` crate merges the
//! bytes by the ranked rules of the file.

use super::byte_alphabet;
use super::error::TokenizerError;
use super::pretokenize::Pretokenizer;
use super::source::{MAX_MERGES, keys};
use super::vocabulary::Vocabulary;
use crate::gguf::StringArray;
use std::collections::HashSet;
use tokenizers::Model;
use tokenizers::models::bpe::BPE;

/// Stands for a byte that has no token.
const NO_TOKEN: u32 = u32::MAX;

/// The rules of one byte-level vocabulary.
pub(crate) struct ByteBpe {
    pretokenizer: Pretokenizer,
    /// The token of each single byte.
    byte_ids: [u32; 256],
    /// Merges a spelled word.
    model: BPE,
    /// Tokens that some rule makes, which ordinary text can therefore produce.
    made: HashSet<u32>,
}

impl ByteBpe {
    /// Resolves the merge rules against the vocabulary. `pre` is the pre-tokenizer's name.
    pub(crate) fn new(
        pre: Option<&str>,
        merges: Option<&StringArray>,
        vocabulary: &Vocabulary,
    ) -> Result<Self, TokenizerError> {
        let name = pre.ok_or(TokenizerError::MissingKey {
            key: keys::PRE,
            remedy: "how text is cut into words cannot be guessed: convert the model again, or set the key to the \
                     name its tokenizer has",
        })?;
        let pretokenizer = Pretokenizer::named(name)?;
        let list = merges.ok_or(TokenizerError::MissingKey {
            key: keys::MERGES,
            remedy: "a byte-level vocabulary is useless without its merge rules: convert the model again",
        })?;
        if list.len() > MAX_MERGES {
            return Err(TokenizerError::TooLarge { what: keys::MERGES, got: list.len(), limit: MAX_MERGES });
        }
        let mut merges = Vec::with_capacity(list.len());
        let mut named = HashSet::with_capacity(list.len());
        let mut made = HashSet::with_capacity(list.len());
        let mut joined_text = String::new();
        for (index, rule) in list.iter().enumerate() {
            let bad = |reason: String| TokenizerError::BadMerge { index, text: rule.to_owned(), reason };
            let (left, right) =
                rule.split_once(' ').ok_or_else(|| bad("is not two parts with a space between".into()))?;
            let known = |text: &str| {
                vocabulary
                    .id(text)
                    .ok_or_else(|| bad(format!("needs the token {text:?}, which the vocabulary lacks")))
            };
            joined_text.clear();
            joined_text.push_str(left);
            joined_text.push_str(right);
            let pair = (known(left)?, known(right)?);
            made.insert(known(&joined_text)?);
            // A repeated rule keeps its first, better rank.
            if named.insert(pair) {
                merges.push((left.to_owned(), right.to_owned()));
            }
        }
        let byte_ids = std::array::from_fn(|byte| {
            let mut text = [0; 4];
            let spelled = byte_alphabet::char_of(byte as u8).encode_utf8(&mut text);
            vocabulary.id(spelled).unwrap_or(NO_TOKEN)
        });
        let model = BPE::builder()
            .vocab_and_merges(vocabulary.spellings(), merges)
            .ignore_merges(pretokenizer.ignore_merges)
            .build()
            .map_err(|error| TokenizerError::BadRules { reason: error.to_string() })?;
        Ok(Self { pretokenizer, byte_ids, model, made })
    }

    /// Whether prompts start with the begin token when the file does not say.
    pub(crate) fn adds_bos_by_habit(&self) -> bool {
        self.pretokenizer.add_bos
    }

    /// Whether ordinary text can become this token: it is a byte, or some rule makes it.
    pub(crate) fn makes(&self, id: u32) -> bool {
        self.made.contains(&id) || self.byte_ids.contains(&id)
    }

    /// The byte values that have no token. They are dropped from what is encoded, as the established engine does;
    /// vocabularies trained without some bytes lack mainly those that UTF-8 never uses.
    pub(crate) fn missing_bytes(&self) -> impl Iterator<Item = u8> {
        (0..=255).filter(|byte| self.byte_ids[usize::from(*byte)] == NO_TOKEN)
    }

    /// Appends the tokens of `text`, which holds no special tokens.
    pub(crate) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let mut spelled = String::new();
        self.pretokenizer.split(text, &mut |word| {
            // A byte without a token joins nothing: what is before it and after it are words of their own.
            for part in word.as_bytes().split(|byte| self.byte_ids[usize::from(*byte)] == NO_TOKEN) {
                spelled.clear();
                spelled.extend(part.iter().map(|byte| byte_alphabet::char_of(*byte)));
                // Every byte of the part has a token, so the model has no reason to refuse.
                let tokens = self.model.tokenize(&spelled).unwrap_or_default();
                out.extend(tokens.into_iter().map(|token| token.id));
            }
        });
    }
}
