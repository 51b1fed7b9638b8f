//! Which tokens end a generation.
//!
//! No single source is complete: files name one end-of-text id, chat models end a turn with another token, and some
//! converters record neither. The set is the union of every id the file names and every special token whose text is a
//! known end marker.

use super::error::TokenizerError;
use super::vocabulary::{TokenKind, Vocabulary};

/// Texts that end a text, a turn, a message or a tool call in some family of models.
pub(super) const END_MARKERS: &[&str] = &[
    "</s>",
    "<eos>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<end_of_utterance>",
    "<turn|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<｜end▁of▁sentence｜>",
    // Where a code-completion model leaves the file it was filling in.
    "<|fim_pad|>",
    "<|fim_repo|>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<reponame>",
];

/// Markers between the parts of one answer rather than at its end, when all of `beside` exist as well.
struct Separator {
    text: &'static str,
    beside: &'static [&'static str],
}

/// In the harmony format `<|end|>` closes each part and `<|return|>` or `<|call|>` the answer.
const SEPARATORS: &[Separator] = &[Separator { text: "<|end|>", beside: &["<|return|>", "<|call|>"] }];

/// The ids that end a generation, in ascending order. Tokens found by their text become control tokens, so that a
/// file that forgot to mark them neither prints them nor fails to parse them. `from_text` says whether ordinary text
/// can become a token; then its text means nothing (`</s>` is also the end of a strike-through in HTML).
pub(crate) fn end_tokens(
    named: &[(&'static str, i64)],
    vocabulary: &mut Vocabulary,
    from_text: impl Fn(u32) -> bool,
) -> Result<Vec<u32>, TokenizerError> {
    let mut ids = Vec::new();
    for &(key, id) in named {
        let known = u32::try_from(id).ok().filter(|id| (*id as usize) < vocabulary.len());
        ids.push(known.ok_or(TokenizerError::SpecialIdOutOfRange { key, id, n_vocab: vocabulary.len() })?);
    }
    let by_text: Vec<u32> = END_MARKERS
        .iter()
        .filter_map(|text| vocabulary.id(text))
        .filter(|id| vocabulary.kind(*id) != Some(TokenKind::Normal) || !from_text(*id))
        .collect();
    for id in by_text {
        vocabulary.make_control(id);
        ids.push(id);
    }
    for separator in SEPARATORS {
        if separator.beside.iter().all(|text| vocabulary.id(text).is_some()) {
            ids.retain(|id| vocabulary.text(*id) != Some(separator.text));
        }
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
