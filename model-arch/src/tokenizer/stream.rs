//! Turning tokens into text one at a time, without ever showing half a character.

use super::Tokenizer;

/// Decodes a stream of tokens. A character whose bytes are spread over several tokens appears with the last of them;
/// everything pushed and then flushed is exactly [`Tokenizer::decode`] of the ids.
#[derive(Debug, Clone)]
pub struct StreamDecoder {
    special: bool,
    /// The start of a character that has not ended yet; at most three bytes between calls.
    pending: Vec<u8>,
}

impl StreamDecoder {
    /// A decoder at the start of a text. `special` shows control tokens as their text.
    pub fn new(special: bool) -> Self {
        Self { special, pending: Vec::new() }
    }

    /// The text that is complete with token `id`; empty when the token only begins or continues a character.
    pub fn push(&mut self, tokenizer: &Tokenizer, id: u32) -> String {
        tokenizer.append_bytes(id, self.special, &mut self.pending);
        let mut text = String::new();
        let mut tail = 0;
        let mut chunks = self.pending.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            if chunks.peek().is_none() && begins_a_character(chunk.invalid()) {
                tail = chunk.invalid().len();
            } else if !chunk.invalid().is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.pending.drain(..self.pending.len() - tail);
        text
    }

    /// What is left at the end of the stream: U+FFFD for a character that never ended, else nothing.
    pub fn flush(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// Whether more bytes could complete these, which end the input, to a character.
fn begins_a_character(bytes: &[u8]) -> bool {
    !bytes.is_empty() && std::str::from_utf8(bytes).is_err_and(|e| e.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::super::score_bpe;
    use super::super::tests::byte_tokenizer;
    use super::*;
    use proptest::prelude::*;

    /// In [`byte_tokenizer`] the id of a byte is its value.
    fn pieces(bytes: &[u8]) -> Vec<String> {
        let tokenizer = byte_tokenizer();
        let mut decoder = StreamDecoder::new(false);
        let mut out: Vec<String> = bytes.iter().map(|b| decoder.push(&tokenizer, u32::from(*b))).collect();
        out.push(decoder.flush());
        out
    }

    #[test]
    fn characters_appear_whole() {
        assert_eq!(pieces("é👍".as_bytes()), ["", "é", "", "", "", "👍", ""]);
    }

    #[test]
    fn an_unfinished_character_is_replaced_at_the_end() {
        assert_eq!(pieces(b"a\xf0\x9f\x91"), ["a", "", "", "", "\u{fffd}"]);
    }

    #[test]
    fn a_broken_character_is_replaced_as_soon_as_it_is_certain() {
        assert_eq!(pieces(b"\xe4\xb8a\xff"), ["", "", "\u{fffd}a", "\u{fffd}", ""]);
    }

    proptest! {
        #[test]
        fn the_stream_is_the_whole(bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0xe0u8..=0xf4, 0x80u8..=0xbf], 0..60)) {
            let ids: Vec<u32> = bytes.iter().map(|b| u32::from(*b)).collect();
            prop_assert_eq!(pieces(&bytes).concat(), byte_tokenizer().decode(&ids, false));
        }

        /// With bytes that stand in for characters between pieces of text, control tokens, and ids that do
        /// not exist: the pieces together are the text, and each shows as much of it as is certain.
        #[test]
        fn every_stream_of_a_scored_vocabulary_is_the_whole(
            ids in prop::collection::vec(prop_oneof![0u32..280, 195u32..=250, 131u32..=194, 259u32..270], 0..60),
            special in any::<bool>(),
        ) {
            let tokenizer = Tokenizer::new(score_bpe::tests::source(None)).unwrap();
            let mut decoder = StreamDecoder::new(special);
            let mut shown = String::new();
            for (at, id) in ids.iter().enumerate() {
                shown.push_str(&decoder.push(&tokenizer, *id));
                let so_far = tokenizer.decode(&ids[..=at], special);
                // What is held back is the beginning of one character, which the whole shows as one sign.
                let held = so_far.strip_prefix(shown.as_str());
                prop_assert!(matches!(held, Some("" | "\u{fffd}")), "{shown:?} of {so_far:?}");
            }
            shown.push_str(&decoder.flush());
            prop_assert_eq!(shown, tokenizer.decode(&ids, special));
        }
    }
}
