//! The tokens themselves: text, type and the bytes each one stands for.

use super::error::TokenizerError;
use super::source::{MAX_TOKENS, keys};
use crate::gguf::StringArray;
use std::collections::HashMap;

/// What a token is for; the numbers are GGUF's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    /// Ordinary text.
    Normal,
    /// Stands for text that the vocabulary cannot express.
    Unknown,
    /// Structure rather than text: begin, end, role markers. Only parsed from text when asked for.
    Control,
    /// Added text, matched before anything else whether or not control tokens are parsed.
    UserDefined,
    /// A gap in the numbering.
    Unused,
    /// One raw byte, spelled `<0xNN>`.
    Byte,
}

impl TokenKind {
    /// The kind for a number in `tokenizer.ggml.token_type`; what the format does not define is unused.
    fn from_number(number: i32) -> Self {
        match number {
            1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            6 => Self::Byte,
            _ => Self::Unused,
        }
    }
}

/// All tokens of a model. Ids are indices, checked on the way in.
pub(crate) struct Vocabulary {
    texts: StringArray,
    kinds: Vec<TokenKind>,
    ids: HashMap<Box<str>, u32>,
    bytes: Vec<u8>,
    /// Where each token's bytes end in `bytes`.
    ends: Vec<usize>,
    longest_text: usize,
}

impl Vocabulary {
    /// Checks the arrays against each other. `spell` appends the bytes that a normal token's text stands for.
    pub(crate) fn new(
        texts: StringArray,
        types: Option<&[i32]>,
        spell: impl Fn(&str, &mut Vec<u8>),
    ) -> Result<Self, TokenizerError> {
        let n_tokens = texts.len();
        if n_tokens > MAX_TOKENS {
            return Err(TokenizerError::TooLarge { what: keys::TOKENS, got: n_tokens, limit: MAX_TOKENS });
        }
        if n_tokens == 0 {
            return Err(TokenizerError::MissingKey {
                key: keys::TOKENS,
                remedy: "the list is empty; the file is damaged",
            });
        }
        let kinds: Vec<TokenKind> = match types {
            Some(types) if types.len() != n_tokens => {
                return Err(TokenizerError::CountMismatch {
                    key: keys::TYPES,
                    got: types.len(),
                    tokens: n_tokens,
                });
            }
            Some(types) => types.iter().map(|number| TokenKind::from_number(*number)).collect(),
            None => vec![TokenKind::Normal; n_tokens],
        };
        let mut ids = HashMap::with_capacity(n_tokens);
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(n_tokens);
        let mut longest_text = 0;
        for ((id, text), kind) in (0u32..).zip(texts.iter()).zip(&kinds) {
            longest_text = longest_text.max(text.len());
            // Some files fill gaps in the numbering with empty texts; nothing ever matches those.
            if !text.is_empty()
                && let Some(first) = ids.insert(text.into(), id)
            {
                return Err(TokenizerError::DuplicateToken { text: text.to_owned(), first, second: id });
            }
            match kind {
                TokenKind::Normal => spell(text, &mut bytes),
                TokenKind::Unknown | TokenKind::Control | TokenKind::UserDefined => {
                    bytes.extend_from_slice(text.as_bytes())
                }
                TokenKind::Byte => bytes.extend(byte_token(text)),
                TokenKind::Unused => {}
            }
            ends.push(bytes.len());
        }
        Ok(Self { texts, kinds, ids, bytes, ends, longest_text })
    }

    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// The id of a token by its text as the file spells it.
    pub(crate) fn id(&self, text: &str) -> Option<u32> {
        self.ids.get(text).copied()
    }

    pub(crate) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize)
    }

    pub(crate) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    /// The bytes that a token adds to the output.
    pub(crate) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let index = id as usize;
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.bytes.get(start..end)
    }

    /// The length in bytes of the longest text.
    pub(crate) fn longest_text(&self) -> usize {
        self.longest_text
    }

    /// Every token, in id order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &str, TokenKind)> {
        (0u32..).zip(self.texts.iter()).zip(&self.kinds).map(|((id, text), kind)| (id, text, *kind))
    }

    /// Every token's text with its id, as the `tokenizers` crate wants them.
    pub(crate) fn spellings(&self) -> tokenizers::models::bpe::Vocab {
        self.iter().map(|(id, text, _)| (text.to_owned(), id)).collect()
    }

    /// Makes a token a control token, for files that forgot to say so.
    pub(crate) fn make_control(&mut self, id: u32) {
        if let Some(kind) = self.kinds.get_mut(id as usize) {
            *kind = TokenKind::Control;
        }
    }
}

/// The byte that `<0xNN>` stands for.
fn byte_token(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let hexadecimal = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    hexadecimal.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(texts: &[&str], types: Option<&[i32]>) -> Result<Vocabulary, TokenizerError> {
        Vocabulary::new(texts.iter().copied().collect(), types, |text, out| {
            out.extend_from_slice(text.as_bytes())
        })
    }

    #[test]
    fn kinds_decide_the_bytes() {
        let vocabulary =
            build(&["a", "<s>", "<0x0A>", "", "pad", "<0x+1>"], Some(&[1, 3, 6, 1, 5, 6])).unwrap();
        let bytes: Vec<_> = (0..7).map(|id| vocabulary.bytes(id)).collect();
        assert_eq!(
            bytes,
            [Some(&b"a"[..]), Some(b"<s>"), Some(b"\n"), Some(b""), Some(b""), Some(b""), None]
        );
        assert_eq!((vocabulary.id("<s>"), vocabulary.id(""), vocabulary.id("z")), (Some(1), None, None));
        assert_eq!(vocabulary.kind(99), None);
    }

    #[test]
    fn arrays_that_disagree_are_refused() {
        let message = |r: Result<Vocabulary, TokenizerError>| r.err().unwrap().to_string();
        assert!(message(build(&["a", "b", "a"], None)).contains("\"a\" appears twice, as ids 0 and 2"));
        assert!(message(build(&["a", "b"], Some(&[1]))).contains("1 entries for 2 tokens"));
        assert!(message(build(&[], None)).contains("empty"));
        let many = vec!["x"; MAX_TOKENS + 1];
        assert!(message(build(&many, None)).contains("more than the 4194304"));
    }
}
