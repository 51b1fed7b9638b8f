//! SentencePiece's BPE: characters are merged while two neighbours together are a token, the best score first.
//!
//! There are no words: a space is the character `▁` and merges like any other. A character that is no token becomes
//! its bytes, each a token `<0xNN>`. Text begins with one more space where the model was trained so.

use super::error::TokenizerError;
use super::merge::Merger;
use super::source::keys;
use super::vocabulary::{TokenKind, Vocabulary};
use std::cell::RefCell;

/// Stands for a space in the text of tokens.
pub(crate) const SPACE: char = '\u{2581}';

/// No token.
const NO_TOKEN: u32 = u32::MAX;

/// Symbols from here on are characters that no token spells: this plus the character's number. Vocabularies end far
/// below.
const BARE: u32 = 1 << 31;

/// The rules of one scored vocabulary.
pub(crate) struct ScoreBpe {
    /// The order in which merging makes each token: lower first.
    ranks: Vec<u32>,
    byte_ids: [u32; 256],
    unknown: Option<u32>,
    space_prefix: bool,
}

impl ScoreBpe {
    /// `space_prefix` says whether texts begin with one more space.
    pub(crate) fn new(
        scores: Option<&[f32]>,
        space_prefix: bool,
        vocabulary: &Vocabulary,
    ) -> Result<Self, TokenizerError> {
        let scores = scores.ok_or(TokenizerError::MissingKey {
            key: keys::SCORES,
            remedy: "without scores nothing says which tokens to prefer: convert the model again",
        })?;
        if let Some(id) = scores.iter().position(|score| score.is_nan()) {
            return Err(TokenizerError::ScoreNotANumber { id });
        }
        let byte_ids = std::array::from_fn(|byte| {
            let byte = byte as u8;
            let plain = || {
                byte.is_ascii().then(|| vocabulary.id(char::from(byte).encode_utf8(&mut [0; 4]))).flatten()
            };
            vocabulary.id(&format!("<0x{byte:02X}>")).or_else(plain).unwrap_or(NO_TOKEN)
        });
        let unknown = vocabulary.iter().find(|(_, _, kind)| *kind == TokenKind::Unknown).map(|(id, _, _)| id);
        Ok(Self { ranks: scores.iter().map(|score| rank(*score)).collect(), byte_ids, unknown, space_prefix })
    }

    /// Whether texts begin with one more space.
    pub(crate) fn space_prefix(&self) -> bool {
        self.space_prefix
    }

    /// The byte values that have no token.
    pub(crate) fn missing_bytes(&self) -> impl Iterator<Item = u8> {
        (0..=255).filter(|byte| self.byte_ids[usize::from(*byte)] == NO_TOKEN)
    }

    /// Appends the tokens of `text`, which holds no special tokens; `first` when nothing or a special token stands
    /// before it.
    pub(crate) fn encode(&self, text: &str, first: bool, vocabulary: &Vocabulary, out: &mut Vec<u32>) {
        let prefix = (self.space_prefix && first).then_some(SPACE);
        let chars = prefix.into_iter().chain(text.chars().map(|c| if c == ' ' { SPACE } else { c }));
        let symbols = chars.map(|c| {
            let known = vocabulary.id(c.encode_utf8(&mut [0; 4]));
            known.unwrap_or(BARE + u32::from(c))
        });
        let spelled = RefCell::new(String::new());
        let join = |left: u32, right: u32| {
            let mut spelled = spelled.borrow_mut();
            spelled.clear();
            for id in [left, right] {
                match bare(id) {
                    Some(c) => spelled.push(c),
                    None => spelled.push_str(vocabulary.text(id)?),
                }
            }
            if spelled.len() > vocabulary.longest_text() {
                return None;
            }
            let joined = vocabulary.id(&spelled)?;
            Some((self.ranks.get(joined as usize).copied()?, joined))
        };
        Merger::new().run(symbols, join, |id| match bare(id) {
            None => out.push(id),
            Some(c) => self.spell(c, out),
        });
    }

    /// A character as its bytes; as the unknown token where one of them has none.
    fn spell(&self, c: char, out: &mut Vec<u32>) {
        let start = out.len();
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            match self.byte_ids[usize::from(byte)] {
                NO_TOKEN => {
                    out.truncate(start);
                    out.extend(self.unknown);
                    return;
                }
                id => out.push(id),
            }
        }
    }
}

/// The character that a symbol without a token stands for.
fn bare(id: u32) -> Option<char> {
    id.checked_sub(BARE).and_then(char::from_u32)
}

/// A number that is lower for a higher score.
fn rank(score: f32) -> u32 {
    // The sign bit apart, floats order as integers do; adding zero makes -0 equal to 0.
    let bits = (score + 0.0).to_bits();
    let ascending = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    !ascending
}

/// Appends to `out` the bytes that a token's text stands for.
pub(crate) fn decode_into(text: &str, out: &mut Vec<u8>) {
    let mut buffer = [0; 4];
    for c in text.chars() {
        let c = if c == SPACE { ' ' } else { c };
        out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Special, Tokenizer, TokenizerSource};
    use super::*;
    use proptest::prelude::*;
    use std::time::{Duration, Instant};

    /// Control tokens (0 to 2), the bytes (from 3), and a few scored pieces (from 259).
    pub(in super::super) fn source(space_prefix: Option<bool>) -> TokenizerSource {
        let mut source = TokenizerSource {
            model: "llama".into(),
            bos: Some(1),
            eos: Some(2),
            add_space_prefix: space_prefix,
            ..TokenizerSource::default()
        };
        let (mut types, mut scores) = (vec![2, 3, 3], vec![0.0; 3]);
        ["<unk>", "<s>", "</s>"].iter().for_each(|text| source.tokens.push(text));
        for byte in 0..=255 {
            source.tokens.push(&format!("<0x{byte:02X}>"));
            types.push(6);
            scores.push(0.0);
        }
        let pieces = ["▁", "a", "b", "c", "ab", "bc", "▁a", "▁▁", "aa", "▁ab", "xy"];
        for (number, piece) in (0u8..).zip(pieces) {
            source.tokens.push(piece);
            types.push(1);
            scores.push(-f32::from(number));
        }
        (source.token_types, source.scores) = (Some(types), Some(scores));
        source
    }

    fn texts(tokenizer: &Tokenizer, ids: &[u32]) -> Vec<String> {
        ids.iter().map(|id| tokenizer.token_text(*id).unwrap().to_owned()).collect()
    }

    #[test]
    fn the_best_score_merges_first_and_bytes_stand_in() {
        let plain = Tokenizer::new(source(Some(false))).unwrap();
        let cut = |text: &str| texts(&plain, &plain.encode(text, Special::Plain));
        // `ab` is better than `bc`, and `▁a` than `▁ab`, which needs `ab` first and so comes later anyway.
        assert_eq!(cut("abc"), ["ab", "c"]);
        assert_eq!(cut(" ab"), ["▁ab"]);
        assert_eq!(cut("aaa"), ["aa", "a"]);
        assert_eq!(cut("é\n"), ["<0xC3>", "<0xA9>", "<0x0A>"]);
        // Two characters that are no tokens make one.
        assert_eq!(cut("xyx"), ["xy", "<0x78>"]);
        assert!(cut("").is_empty());
    }

    #[test]
    fn a_space_is_put_before_text_that_begins_or_follows_a_special_token() {
        let prefixed = Tokenizer::new(source(None)).unwrap();
        let cut = |text: &str| texts(&prefixed, &prefixed.encode(text, Special::Parse));
        assert_eq!(cut("a</s>a"), ["▁a", "</s>", "▁a"]);
        assert_eq!(cut(" a"), ["▁", "▁a"]);
        assert!(prefixed.add_bos() && prefixed.encode("", Special::Parse).is_empty());
        let ids = prefixed.encode("a b", Special::Plain);
        assert_eq!(prefixed.decode(&ids, false), " a b");
        assert_eq!(prefixed.decode_whole(&ids, false), "a b");
    }

    #[test]
    fn a_vocabulary_without_scores_or_bytes_or_with_odd_ones() {
        let error = Tokenizer::new(TokenizerSource { scores: None, ..source(None) }).unwrap_err().to_string();
        assert!(error.contains("tokenizer.ggml.scores"), "{error}");
        let mut odd = source(None);
        odd.scores.as_mut().unwrap()[7] = f32::NAN;
        let error = Tokenizer::new(odd).unwrap_err().to_string();
        assert!(error.contains("the score of token 7 in `tokenizer.ggml.scores`"), "{error}");
        let mut few = source(Some(false));
        few.tokens = few.tokens.iter().map(|text| text.replace("<0xC3>", "<gone>")).collect();
        let few = Tokenizer::new(few).unwrap();
        assert_eq!(texts(&few, &few.encode("éa", Special::Plain)), ["<unk>", "a"]);
        assert_eq!(few.missing_bytes(), [0xc3]);
    }

    #[test]
    fn scores_order_as_numbers() {
        let scores = [f32::INFINITY, 2.0, 0.5, 0.0, -0.5, -1000.0, f32::NEG_INFINITY];
        assert!(scores.windows(2).all(|pair| rank(pair[0]) < rank(pair[1])));
        assert_eq!(rank(0.0), rank(-0.0));
    }

    #[test]
    fn hostile_lengths_take_near_linear_time() {
        let tokenizer = Tokenizer::new(source(None)).unwrap();
        for unit in ["a", " ", "ab", "\n", "中", "abc ", "xy"] {
            let text = unit.repeat((1 << 19) / unit.len());
            let start = Instant::now();
            let ids = tokenizer.encode(&text, Special::Parse);
            let took = start.elapsed();
            assert_eq!(tokenizer.decode_whole(&ids, true), text);
            // Well under a second; quadratic work would take hours.
            assert!(took < Duration::from_secs(20), "{unit:?} took {took:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_round_trips(text in "[abcxy \\n]{0,30}|\\PC*") {
            // The sign for a space is a space, in every implementation.
            prop_assume!(!text.contains(SPACE));
            for prefix in [true, false] {
                let tokenizer = Tokenizer::new(source(Some(prefix))).unwrap();
                let ids = tokenizer.encode(&text, Special::Plain);
                prop_assert_eq!(tokenizer.decode_whole(&ids, true), text.as_str());
                prop_assert!(tokenizer.check_ids(&ids).is_ok());
            }
        }
    }
}
