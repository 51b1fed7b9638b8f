//! Byte-level BPE: text is cut into words, words are spelled byte by byte, and the `tokenizers` crate merges the
//! bytes by the ranked rules of the file.

use super::byte_alphabet;
use super::eog;
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
    /// Tokens with the text of an end marker that some rule makes, so that ordinary text can produce them.
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
        let mut makes_markers = HashSet::new();
        for (index, rule) in list.iter().enumerate() {
            let (left, right) = parts(index, rule)?;
            makes_markers
                .extend(eog::END_MARKERS.iter().copied().filter(|marker| joins_to(left, right, marker)));
            // A repeated rule keeps its first, better rank.
            if named.insert(rule) {
                merges.push((left.to_owned(), right.to_owned()));
            }
        }
        let made = makes_markers.into_iter().filter_map(|marker| vocabulary.id(marker)).collect();
        let byte_ids = std::array::from_fn(|byte| {
            let mut text = [0; 4];
            let spelled = byte_alphabet::char_of(byte as u8).encode_utf8(&mut text);
            vocabulary.id(spelled).unwrap_or(NO_TOKEN)
        });
        let model = BPE::builder()
            .vocab_and_merges(vocabulary.spellings(), merges)
            .ignore_merges(pretokenizer.ignore_merges)
            .build()
            // The crate looks every part up; which rule it stumbled over is asked only then.
            .map_err(|error| {
                let reason = error.to_string();
                first_stranger(list, vocabulary).unwrap_or(TokenizerError::BadRules { reason })
            })?;
        Ok(Self { pretokenizer, byte_ids, model, made })
    }

    /// Whether prompts start with the begin token when the file does not say.
    pub(crate) fn adds_bos_by_habit(&self) -> bool {
        self.pretokenizer.add_bos
    }

    /// Whether ordinary text can become this token, which has the text of an end marker: some rule makes it.
    pub(crate) fn makes_marker(&self, id: u32) -> bool {
        self.made.contains(&id)
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

/// The two parts of a rule.
fn parts(index: usize, rule: &str) -> Result<(&str, &str), TokenizerError> {
    rule.split_once(' ').ok_or_else(|| TokenizerError::BadMerge {
        index,
        text: rule.to_owned(),
        reason: "is not two parts with a space between".into(),
    })
}

/// Whether the two parts together are `whole`.
fn joins_to(left: &str, right: &str, whole: &str) -> bool {
    left.len() + right.len() == whole.len() && whole.starts_with(left) && whole.ends_with(right)
}

/// The first rule with a part, or a whole, that is no token.
fn first_stranger(list: &StringArray, vocabulary: &Vocabulary) -> Option<TokenizerError> {
    list.iter().enumerate().find_map(|(index, rule)| {
        let (left, right) = parts(index, rule).ok()?;
        let joined = format!("{left}{right}");
        let stranger = [left, right, &joined].into_iter().find(|text| vocabulary.id(text).is_none())?;
        let reason = format!("needs the token {stranger:?}, which the vocabulary lacks");
        Some(TokenizerError::BadMerge { index, text: rule.to_owned(), reason })
    })
}
