//! A tokenizer's description, and text put through what it makes.
//!
//! An input is lines. The first character of a line says what the rest is: see [`read`].

use cajeta_model_arch::tokenizer::{Special, StreamDecoder, Tokenizer, TokenizerSource};

use crate::Target;

/// This target.
pub const TARGET: Target = Target {
    name: "tokenizer",
    run,
    seeds,
    words: &[
        "\nT",
        "\nR",
        "\nB0",
        "\nE1",
        "\nN2",
        "\n=",
        "\nMllama",
        "\nMgpt2",
        "\nPllama-bpe",
        "\nPdeepseek-llm",
        "NaN",
        "inf",
        "\u{2581}",
        "\u{120}",
        "<0x0A>",
        "</s>",
        "<|end|>",
        "\u{1f44d}",
        "6\t",
    ],
    replays: 8_000,
};

/// Makes a tokenizer, if it can be made, and puts the text through it.
pub fn run(data: &[u8]) {
    let input = String::from_utf8_lossy(data);
    let (source, text) = read(&input);
    let n_tokens = source.tokens.len() as u32;
    let Ok(tokenizer) = Tokenizer::new(source) else { return };
    let mut streams = vec![(0..n_tokens.saturating_add(2)).collect::<Vec<u32>>()];
    for special in [Special::Parse, Special::Plain] {
        let ids = tokenizer.encode(&text, special);
        assert!(tokenizer.check_ids(&ids).is_ok(), "{ids:?}");
        // Beside each token a merge or a byte made, a space may stand at each beginning.
        assert!(ids.len() <= 4 * text.len() + 4, "{} tokens of {} bytes", ids.len(), text.len());
        streams.push(tokenizer.with_bos(ids));
    }
    for ids in &streams {
        for special in [true, false] {
            let mut decoder = StreamDecoder::new(special);
            let mut streamed: String = ids.iter().map(|id| decoder.push(&tokenizer, *id)).collect();
            streamed.push_str(&decoder.flush());
            assert_eq!(streamed, tokenizer.decode(ids, special));
            let _ = tokenizer.decode_whole(ids, special);
        }
    }
    assert!(tokenizer.end_ids().iter().all(|id| *id < n_tokens));
    let _ = tokenizer.missing_bytes();
}

/// The description and the text in an input. Lines: `M` model, `P` pre-tokenizer, `T` type, a tab, token;
/// `S` score of the next token, `R` merge rule, `B` begin id, `E` end id, `N` further end id, `Y`es and
/// `Z` no for the flags `b`, `e`, `s`; from `=` on everything is text.
fn read(input: &str) -> (TokenizerSource, String) {
    let mut source = TokenizerSource::default();
    let (description, text) = input.split_once("\n=").unwrap_or((input, ""));
    let (mut types, mut scores, mut merges) = (Vec::new(), Vec::new(), Vec::new());
    for line in description.split('\n') {
        let mut rest = line.chars();
        let kind = rest.next();
        let value = rest.as_str();
        match kind {
            Some('M') => source.model = value.to_owned(),
            Some('P') => source.pre = Some(value.to_owned()),
            Some('T') => {
                let (number, token) = value.split_once('\t').unwrap_or(("", value));
                types.extend(number.parse::<i32>());
                source.tokens.push(token);
            }
            Some('S') => scores.extend(value.parse::<f32>()),
            Some('R') => merges.push(value),
            Some('B') => source.bos = value.parse().ok(),
            Some('E') => source.eos = value.parse().ok(),
            Some('N') => source.end_ids.extend(value.parse().map(|id| ("tokenizer.ggml.eot_token_id", id))),
            Some(said @ ('Y' | 'Z')) => {
                let said = Some(said == 'Y');
                match value {
                    "b" => source.add_bos = said,
                    "e" => source.add_eos = said,
                    _ => source.add_space_prefix = said,
                }
            }
            _ => {}
        }
    }
    source.token_types = (!types.is_empty()).then_some(types);
    source.scores = (!scores.is_empty()).then_some(scores);
    source.merges = (!merges.is_empty()).then(|| merges.into_iter().collect());
    (source, text.to_owned())
}

fn seeds() -> Vec<Vec<u8>> {
    let scored = "Mllama\nB1\nE2\nYb\nS0\nT2\t<unk>\nS0\nT3\t<s>\nS0\nT3\t</s>\nS0\nT6\t<0xC3>\nS0\nT6\t<0xA9>\n\
                  S-1\nT1\t\u{2581}\nS-2\nT1\ta\nS-3\nT1\tb\nS-4\nT1\tab\nS-5\nT1\t\u{2581}ab\nS0\nT4\t<tool>\n\
                  S0\nT5\t<gap>\n=ab ab<s>\u{e9}x</s> a<tool>";
    let bytes = "Mgpt2\nPllama-bpe\nB0\nN1\nT3\t<s>\nT3\t<|eot_id|>\nT1\ta\nT1\tb\nT1\t\u{120}\nT1\tab\n\
                 T1\t\u{120}ab\nT1\t\u{c3}\nT1\t\u{a9}\nT4\t<x>\nRa b\nR\u{120} ab\n=ab ab<s>\u{e9} 123<x>\n  b";
    let bare = "Mgpt2\nPgpt-2\nRa b\nTa\nTb\nTab\n=abab a";
    let others = ["default", "smollm", "qwen2", "deepseek-llm", "deepseek-v3", "falcon", "gpt-4o", "tekken"];
    let other = |pre: &&str| bytes.replace("llama-bpe", pre).into_bytes();
    let mut seeds = vec![scored.into(), bytes.into(), bare.into()];
    seeds.extend(others.iter().map(other));
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_tokenizers() {
        for seed in seeds() {
            let text = String::from_utf8(seed).unwrap();
            let (source, text) = read(&text);
            assert!(!text.is_empty());
            Tokenizer::new(source).unwrap();
        }
    }
}
