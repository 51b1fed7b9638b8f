//! A byte-level BPE vocabulary of any size: it encodes every text, and each of its merges is usable.

use crate::gguf::StringArray;

/// The control tokens, which stand at the end.
pub(super) const CONTROL: [&str; 4] = ["<|begin_of_text|>", "<|end_of_text|>", "<|user|>", "<|assistant|>"];

/// All bytes and the control tokens.
pub(super) const SMALLEST: u32 = 256 + CONTROL.len() as u32;

/// Letters by how common they are in English, so that small vocabularies have the likelier merges.
const LETTERS: &str = "etaoinshrdlucmfwypvbgkqjxz";

/// How a byte-level vocabulary writes a space.
const SPACE: char = '\u{120}';

/// The tokenizer's arrays.
pub(super) struct Vocabulary {
    pub(super) tokens: StringArray,
    pub(super) types: Vec<i32>,
    pub(super) merges: StringArray,
}

impl Vocabulary {
    /// A vocabulary of exactly `n_vocab` tokens, which must be at least [`SMALLEST`].
    ///
    /// The 256 bytes come first. Then each shorter word or word part, shortest first, is extended by
    /// each letter: the token is `stem + letter` and the merge joins just these two, so every part of
    /// every merge is a token that comes earlier, and no token arises in two ways.
    pub(super) fn synthetic(n_vocab: u32) -> Vocabulary {
        let n_merges = n_vocab.saturating_sub(SMALLEST) as usize;
        let mut tokens: StringArray = (0..=255).map(|byte| byte_char(byte).to_string()).collect();
        let mut merges = StringArray::default();
        let mut stems: Vec<String> =
            std::iter::once(SPACE).chain(LETTERS.chars()).map(String::from).collect();
        let mut next_stem = 0;
        while merges.len() < n_merges {
            let stem = stems[next_stem].clone();
            next_stem += 1;
            for letter in LETTERS.chars().take(n_merges - merges.len()) {
                let token = format!("{stem}{letter}");
                tokens.push(&token);
                merges.push(&format!("{stem} {letter}"));
                stems.push(token);
            }
        }
        CONTROL.iter().for_each(|token| tokens.push(token));
        let types =
            (0..tokens.len()).map(|id| if id < tokens.len() - CONTROL.len() { NORMAL } else { SPECIAL });
        let types = types.collect();
        Vocabulary { tokens, types, merges }
    }
}

/// Token types as GGUF numbers them.
const NORMAL: i32 = 1;
const SPECIAL: i32 = 3;

/// The character that stands for a byte in byte-level vocabularies: printable Latin-1 stands for
/// itself, and the other 68 bytes, in order, for the characters from U+0100 on.
fn byte_char(byte: u8) -> char {
    let printable = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    if printable(byte) {
        return char::from(byte);
    }
    let position = (0..byte).filter(|&earlier| !printable(earlier)).count() as u32;
    char::from_u32(0x100 + position).unwrap_or(SPACE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn bytes_have_their_established_characters() {
        let shown: String =
            [0u8, b'\n', b' ', b'!', b'~', 0x7f, 0xa0, 0xad, 0xff].map(byte_char).iter().collect();
        assert_eq!(shown, "\u{100}\u{10a}\u{120}!~\u{121}\u{142}\u{143}\u{ff}");
        assert_eq!((0..=255).map(byte_char).collect::<HashSet<_>>().len(), 256);
    }

    #[test]
    fn every_size_is_exact_and_every_merge_is_usable() {
        for n_vocab in [SMALLEST, SMALLEST + 1, 1024, 49_152] {
            let Vocabulary { tokens, types, merges } = Vocabulary::synthetic(n_vocab);
            assert_eq!((tokens.len(), types.len()), (n_vocab as usize, n_vocab as usize));
            let known: HashSet<&str> = tokens.iter().collect();
            assert_eq!(known.len(), tokens.len(), "tokens are distinct");
            for merge in merges.iter() {
                let (left, right) = merge.split_once(' ').unwrap();
                assert!(known.contains(left) && known.contains(right));
                assert!(known.contains(format!("{left}{right}").as_str()), "{merge}");
            }
            assert_eq!(tokens.get(tokens.len() - 4), Some(CONTROL[0]));
            assert_eq!(types[types.len() - 5..], [NORMAL, SPECIAL, SPECIAL, SPECIAL, SPECIAL]);
        }
    }
}
