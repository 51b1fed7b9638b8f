//! Finding special tokens in text, before the rest is tokenized.
//!
//! At each position the longest token wins, in one pass over the text whatever the vocabulary holds. The established
//! engine searches token by token, longest first; the two differ only where two special tokens overlap in part, and
//! there this is what the models' own tokenizers do.

use super::error::TokenizerError;
use super::vocabulary::{TokenKind, Vocabulary};
use aho_corasick::{AhoCorasick, MatchKind};

/// Bytes that the texts of all special tokens may take together; real vocabularies have some hundred thousand. An
/// automaton takes about fifty times its texts.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// Whether control tokens written out in the text are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Yes: for templates, and for prompts whose author may use them.
    Parse,
    /// No: `<|im_end|>` in the text is ten characters. For text from somebody else.
    Plain,
}

/// A stretch of the input.
pub(crate) enum Piece<'t> {
    Text(&'t str),
    Token(u32),
}

/// The special tokens of a vocabulary.
pub(crate) struct SpecialTokens {
    /// Control, user-defined and unknown tokens.
    all: Matcher,
    /// User-defined tokens only.
    user_defined: Matcher,
}

struct Matcher {
    automaton: AhoCorasick,
    ids: Vec<u32>,
}

impl SpecialTokens {
    pub(crate) fn new(vocabulary: &Vocabulary) -> Result<Self, TokenizerError> {
        use TokenKind::{Control, Unknown, UserDefined};
        Ok(Self {
            all: Matcher::new(vocabulary, &[Control, UserDefined, Unknown])?,
            user_defined: Matcher::new(vocabulary, &[UserDefined])?,
        })
    }

    /// Calls `piece` on the stretches of `text`, in order; no text is empty.
    pub(crate) fn split<'t>(&self, text: &'t str, special: Special, mut piece: impl FnMut(Piece<'t>)) {
        let matcher = match special {
            Special::Parse => &self.all,
            Special::Plain => &self.user_defined,
        };
        let mut done = 0;
        for found in matcher.automaton.find_iter(text) {
            // Both ends are character boundaries: a whole UTF-8 string only matches at one.
            if found.start() > done {
                piece(Piece::Text(&text[done..found.start()]));
            }
            piece(Piece::Token(matcher.ids[found.pattern().as_usize()]));
            done = found.end();
        }
        if done < text.len() {
            piece(Piece::Text(&text[done..]));
        }
    }
}

impl Matcher {
    fn new(vocabulary: &Vocabulary, kinds: &[TokenKind]) -> Result<Self, TokenizerError> {
        let tokens = || vocabulary.iter().filter(|(_, text, kind)| !text.is_empty() && kinds.contains(kind));
        let refused =
            |detail| TokenizerError::Automaton { what: "the list of special tokens".into(), detail };
        let bytes: usize = tokens().map(|(_, text, _)| text.len()).sum();
        if bytes > MAX_TEXT_BYTES {
            let detail =
                format!("their texts take {bytes} bytes, the most is {MAX_TEXT_BYTES}; the file is damaged");
            return Err(refused(detail));
        }
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(tokens().map(|(_, text, _)| text))
            .map_err(|e| refused(e.to_string()))?;
        Ok(Self { automaton, ids: tokens().map(|(id, _, _)| id).collect() })
    }
}
