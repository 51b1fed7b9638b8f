//! Text to token ids and back, as the model's own tokenizer does it.
//!
//! A file's description ([`TokenizerSource`]) becomes a checked vocabulary and the rules of one kind of tokenizer.
//! Encoding goes: special tokens are found in the text ([`Special`]), what lies between is cut into words and the
//! words into tokens. Nothing here adds a begin token unless [`Tokenizer::with_bos`] is asked to. A tokenizer that is
//! not exactly understood is refused: wrong tokens look like a bad model.

mod error;
mod source;
mod byte_alphabet;
mod vocabulary;
mod pretokenize;
mod merge;
mod byte_bpe;
mod score_bpe;
mod eog;
mod special;
mod stream;

pub use error::TokenizerError;
pub use source::TokenizerSource;
pub use special::Special;
pub use stream::StreamDecoder;
pub use vocabulary::TokenKind;

use crate::gguf::Metadata;
use byte_bpe::ByteBpe;
use score_bpe::ScoreBpe;
use source::keys;
use special::{Piece, SpecialTokens};
use std::borrow::Cow;
use vocabulary::Vocabulary;

/// The rules that turn text without special tokens into tokens, by kind of tokenizer.
enum Rules {
    ByteBpe(Box<ByteBpe>),
    ScoreBpe(Box<ScoreBpe>),
}

/// The tokenizer of one model. Immutable; share it between threads freely.
pub struct Tokenizer {
    vocabulary: Vocabulary,
    rules: Rules,
    special: SpecialTokens,
    end_ids: Vec<u32>,
    bos: Option<u32>,
    eos: Option<u32>,
    add_bos: bool,
    add_eos: bool,
}

impl Tokenizer {
    /// The tokenizer that a GGUF file carries.
    ///
    /// # Errors
    /// When the keys below `tokenizer.ggml` are missing, of the wrong type, contradict each other, or name a tokenizer
    /// or pre-tokenizer that is not supported. Names the file.
    pub fn from_gguf(metadata: &Metadata) -> Result<Self, TokenizerError> {
        let source = TokenizerSource::from_metadata(metadata);
        source.and_then(Self::new).map_err(|error| error.in_file(metadata.path()))
    }

    /// The tokenizer of that description.
    ///
    /// # Errors
    /// As [`from_gguf`](Self::from_gguf).
    pub fn new(source: TokenizerSource) -> Result<Self, TokenizerError> {
        let (mut vocabulary, rules) = match source.model.as_str() {
            "gpt2" => {
                let types = source.token_types.as_deref();
                let vocabulary = Vocabulary::new(source.tokens, types, byte_alphabet::decode_into)?;
                let bpe = ByteBpe::new(source.pre.as_deref(), source.merges.as_ref(), &vocabulary)?;
                (vocabulary, Rules::ByteBpe(Box::new(bpe)))
            }
            "llama" => {
                let types = source.token_types.as_deref();
                let vocabulary = Vocabulary::new(source.tokens, types, score_bpe::decode_into)?;
                let prefix = source.add_space_prefix.unwrap_or(true);
                let bpe = ScoreBpe::new(source.scores.as_deref(), prefix, &vocabulary)?;
                (vocabulary, Rules::ScoreBpe(Box::new(bpe)))
            }
            _ => {
                let supported = "gpt2 (byte-level BPE), llama (SentencePiece BPE)".to_owned();
                return Err(TokenizerError::UnsupportedModel { model: source.model, supported });
            }
        };
        let n_vocab = vocabulary.len();
        for (key, id) in [(keys::BOS, source.bos), (keys::EOS, source.eos)] {
            if let Some(id) = id.filter(|id| *id as usize >= n_vocab) {
                return Err(TokenizerError::SpecialIdOutOfRange { key, id: id.into(), n_vocab });
            }
        }
        if source.scores.as_ref().is_some_and(|scores| scores.len() != n_vocab) {
            let got = source.scores.map_or(0, |scores| scores.len());
            return Err(TokenizerError::CountMismatch { key: keys::SCORES, got, tokens: n_vocab });
        }
        // Merging by score can make every normal token.
        let from_text = |id| match &rules {
            Rules::ByteBpe(bpe) => bpe.makes_marker(id),
            Rules::ScoreBpe(_) => true,
        };
        let end_ids = eog::end_tokens(&source.end_ids, &mut vocabulary, from_text)?;
        let habit = source.bos.is_some()
            && match &rules {
                Rules::ByteBpe(bpe) => bpe.adds_bos_by_habit(),
                Rules::ScoreBpe(_) => true,
            };
        let add_bos = flag(source.add_bos, habit, source.bos, keys::ADD_BOS, keys::BOS)?;
        let add_eos = flag(source.add_eos, false, source.eos, keys::ADD_EOS, keys::EOS)?;
        let special = SpecialTokens::new(&vocabulary)?;
        Ok(Self { vocabulary, rules, special, end_ids, bos: source.bos, eos: source.eos, add_bos, add_eos })
    }

    /// The tokens of `text`, without a begin token. Takes any text, in time near proportional to its length.
    pub fn encode(&self, text: &str, special: Special) -> Vec<u32> {
        let mut out = Vec::with_capacity(text.len() / 4 + 1);
        let mut first = true;
        self.special.split(text, special, |piece| match piece {
            Piece::Token(id) => {
                first = true;
                out.push(id);
            }
            Piece::Text(text) => {
                match &self.rules {
                    Rules::ByteBpe(bpe) => bpe.encode(text, &mut out),
                    Rules::ScoreBpe(bpe) => bpe.encode(text, first, &self.vocabulary, &mut out),
                }
                first = false;
            }
        });
        out
    }

    /// [`encode`](Self::encode) for bytes from outside.
    ///
    /// # Errors
    /// When they are not UTF-8: the words could not be cut as in training. Names the first bad byte.
    pub fn encode_bytes(&self, bytes: &[u8], special: Special) -> Result<Vec<u32>, TokenizerError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(self.encode(text, special)),
            Err(error) => {
                let offset = error.valid_up_to();
                Err(TokenizerError::NotUtf8 { offset, byte: bytes.get(offset).copied().unwrap_or_default() })
            }
        }
    }

    /// `ids` as a prompt: with the begin token in front if the model wants one and it is not there already.
    pub fn with_bos(&self, mut ids: Vec<u32>) -> Vec<u32> {
        if let Some(bos) = self.bos.filter(|bos| self.add_bos && ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        ids
    }

    /// The text of `ids`; bytes that are not UTF-8 become U+FFFD, and so does an id outside the vocabulary. `special`
    /// shows control and unknown tokens as their text; otherwise they show nothing.
    pub fn decode(&self, ids: &[u32], special: bool) -> String {
        let mut bytes = Vec::new();
        for id in ids {
            self.append_bytes(*id, special, &mut bytes);
        }
        match String::from_utf8_lossy(&bytes) {
            Cow::Owned(repaired) => repaired,
            Cow::Borrowed(text) => text.to_owned(),
        }
    }

    /// [`decode`](Self::decode) of a whole text: without the space that [`encode`](Self::encode) put before it, where
    /// the model has that habit. A generation continues a text and is not one, so it keeps its spaces.
    pub fn decode_whole(&self, ids: &[u32], special: bool) -> String {
        let text = self.decode(ids, special);
        let prefixed = matches!(&self.rules, Rules::ScoreBpe(bpe) if bpe.space_prefix());
        let begun = ids.iter().find(|id| special || !self.is_control(**id));
        let ordinary = begun.is_some_and(|id| self.token_kind(*id) == Some(TokenKind::Normal));
        match text.strip_prefix(' ') {
            Some(rest) if prefixed && ordinary => rest.to_owned(),
            _ => text,
        }
    }

    /// Refuses ids that the model does not have, for lists that come from outside.
    ///
    /// # Errors
    /// Names the first such id and its position.
    pub fn check_ids(&self, ids: &[u32]) -> Result<(), TokenizerError> {
        let n_vocab = self.n_vocab();
        match ids.iter().position(|id| *id as usize >= n_vocab) {
            Some(position) => Err(TokenizerError::UnknownId { id: ids[position], position, n_vocab }),
            None => Ok(()),
        }
    }

    /// Appends what a token adds to the output.
    fn append_bytes(&self, id: u32, special: bool, out: &mut Vec<u8>) {
        match self.token_kind(id) {
            Some(TokenKind::Control | TokenKind::Unknown) if !special => {}
            Some(_) => out.extend_from_slice(self.token_bytes(id).unwrap_or_default()),
            None => out.extend_from_slice("\u{fffd}".as_bytes()),
        }
    }

    /// How many tokens there are; ids are below this.
    pub fn n_vocab(&self) -> usize {
        self.vocabulary.len()
    }

    /// The bytes that a token adds to the output, control tokens with their text; `None` for an unknown id.
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        self.vocabulary.bytes(id)
    }

    /// A token as the file spells it (in byte-level vocabularies `Ġ` stands for a space).
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.vocabulary.text(id)
    }

    /// The token that the file spells so.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.vocabulary.id(text)
    }

    /// What a token is for.
    pub fn token_kind(&self, id: u32) -> Option<TokenKind> {
        self.vocabulary.kind(id)
    }

    /// Whether a token is structure rather than text.
    pub fn is_control(&self, id: u32) -> bool {
        self.token_kind(id) == Some(TokenKind::Control)
    }

    /// Whether a token ends a generation.
    pub fn is_end(&self, id: u32) -> bool {
        self.end_ids.binary_search(&id).is_ok()
    }

    /// Every token that ends a generation, in ascending order.
    pub fn end_ids(&self) -> &[u32] {
        &self.end_ids
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.eos
    }

    /// Whether a prompt starts with [`bos`](Self::bos).
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Whether the model's texts end with [`eos`](Self::eos), for embedding and scoring; prompts never get one.
    pub fn add_eos(&self) -> bool {
        self.add_eos
    }

    /// The byte values that the vocabulary cannot express and that [`encode`](Self::encode) therefore drops. Empty for
    /// complete vocabularies; some lack bytes that UTF-8 never uses, and a few more.
    pub fn missing_bytes(&self) -> Vec<u8> {
        match &self.rules {
            Rules::ByteBpe(bpe) => bpe.missing_bytes().collect(),
            Rules::ScoreBpe(bpe) => bpe.missing_bytes().collect(),
        }
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.rules {
            Rules::ByteBpe(_) => "byte-level BPE",
            Rules::ScoreBpe(_) => "SentencePiece BPE",
        };
        f.debug_struct("Tokenizer")
            .field("kind", &kind)
            .field("n_vocab", &self.n_vocab())
            .finish_non_exhaustive()
    }
}

/// Whether a token is added: as the file says, else by habit; and then there must be one.
fn flag(
    said: Option<bool>,
    habit: bool,
    id: Option<u32>,
    flag: &'static str,
    key: &'static str,
) -> Result<bool, TokenizerError> {
    let add = said.unwrap_or(habit);
    if add && id.is_none() { Err(TokenizerError::MissingSpecial { flag, key }) } else { Ok(add) }
}

#[cfg(test)]
mod tests;
