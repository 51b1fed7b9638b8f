//! The tokenizer as a whole on small vocabularies: what it refuses, special tokens, begin tokens, hostile lengths.

use super::*;
use crate::gguf::StringArray;
use proptest::prelude::*;
use std::time::{Duration, Instant};

/// Ids 0..256 are the bytes, then `more` with their types.
fn source(pre: &str, merges: &[&str], more: &[(&str, i32)]) -> TokenizerSource {
    let mut tokens: StringArray = (0..=255).map(|b| byte_alphabet::char_of(b).to_string()).collect();
    let mut types = vec![1; 256];
    for merge in merges {
        tokens.push(&merge.replace(' ', ""));
        types.push(1);
    }
    for (text, kind) in more {
        tokens.push(text);
        types.push(*kind);
    }
    TokenizerSource {
        model: "gpt2".into(),
        pre: Some(pre.into()),
        tokens,
        token_types: Some(types),
        merges: Some(merges.iter().collect()),
        ..TokenizerSource::default()
    }
}

/// A vocabulary of single bytes whose ids are their values.
pub(super) fn byte_tokenizer() -> Tokenizer {
    Tokenizer::new(source("gpt-2", &[], &[])).unwrap()
}

fn build(source: TokenizerSource) -> Tokenizer {
    Tokenizer::new(source).unwrap()
}

#[track_caller]
fn refused(source: TokenizerSource, expected: &str) {
    let message = Tokenizer::new(source).unwrap_err().to_string();
    assert!(message.contains(expected), "{message:?} does not say {expected:?}");
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let good = || source("gpt-2", &["a b"], &[]);
    for model in ["bert", "t5", "rwkv", "no_vocab", ""] {
        refused(
            TokenizerSource { model: model.into(), ..good() },
            &format!("is `{model}`, which is not supported"),
        );
    }
    refused(source("qwen99", &[], &[]), "pre-tokenizer `qwen99`");
    refused(source("qwen99", &[], &[]), "known: default, gpt-2");
    refused(TokenizerSource { pre: None, ..good() }, "`tokenizer.ggml.pre` is missing; how text is cut");
    refused(TokenizerSource { merges: None, ..good() }, "`tokenizer.ggml.merges` is missing");
}

#[test]
fn contradictions_are_refused_with_their_place() {
    let good = || source("gpt-2", &["a b"], &[]);
    for (rule, reason) in [
        ("ab", "is not two parts"),
        ("a bc", "needs the token \"bc\""),
        ("b a", "needs the token \"ba\""),
        ("a b c", "needs the token \"b c\""),
        (" ab", "needs the token \"\""),
        ("", "is not two parts"),
    ] {
        let merges = Some(["a b", rule].into_iter().collect());
        refused(
            TokenizerSource { merges, ..good() },
            &format!("merge 1 ({rule:?}) of `tokenizer.ggml.merges` {reason}"),
        );
    }
    refused(TokenizerSource { token_types: Some(vec![1; 3]), ..good() }, "3 entries for 257 tokens");
    refused(
        TokenizerSource { scores: Some(vec![0.0; 5]), ..good() },
        "`tokenizer.ggml.scores` has 5 entries",
    );
    refused(TokenizerSource { bos: Some(257), ..good() }, "`tokenizer.ggml.bos_token_id` is 257");
    refused(TokenizerSource { eos: Some(u32::MAX), ..good() }, "`tokenizer.ggml.eos_token_id` is 4294967295");
    refused(
        TokenizerSource { end_ids: vec![("tokenizer.ggml.eos_token_ids", -1)], ..good() },
        "eos_token_ids` is -1",
    );
    refused(TokenizerSource { add_bos: Some(true), ..good() }, "`tokenizer.ggml.add_bos_token` is true");
    refused(TokenizerSource { add_eos: Some(true), ..good() }, "`tokenizer.ggml.add_eos_token` is true");
    refused(source("gpt-2", &[], &[("a", 1)]), "\"a\" appears twice, as ids 97 and 256");
}

#[test]
fn merges_apply_by_rank_and_whole_words_only_where_they_should() {
    let merges = ["b c", "a b", "ab c"];
    let by_rank = build(source("gpt-2", &merges, &[]));
    assert_eq!(by_rank.encode("abc", Special::Plain), [97, 256]);
    let whole_words = build(source("llama-bpe", &merges, &[]));
    assert_eq!(whole_words.encode("abc abc", Special::Plain), [258, 32, 97, 256]);
    assert_eq!(by_rank.decode(&[258, 32, 97, 256], false), "abc abc");
}

#[test]
fn a_byte_without_a_token_is_dropped_and_reported() {
    let mut incomplete = source("gpt-2", &[], &[]);
    incomplete.tokens =
        (0..=255).filter(|b| *b != b'x').map(|b| byte_alphabet::char_of(b).to_string()).collect();
    incomplete.token_types = None;
    let tokenizer = build(incomplete);
    assert_eq!(tokenizer.missing_bytes(), b"x");
    assert_eq!(tokenizer.decode(&tokenizer.encode("axbx", Special::Plain), false), "ab");
    assert!(byte_tokenizer().missing_bytes().is_empty());
}

fn chat_tokenizer() -> Tokenizer {
    let more = [("<s>", 3), ("<|im_end|>", 3), ("<|im_end|>x", 3), ("<tool>", 4), ("<unk>", 2), ("<pad>", 5)];
    build(TokenizerSource { bos: Some(256), add_bos: Some(true), ..source("gpt-2", &[], &more) })
}

#[test]
fn special_tokens_are_parsed_on_request_and_user_defined_ones_always() {
    let tokenizer = chat_tokenizer();
    assert_eq!(tokenizer.encode("a<|im_end|>b<tool>", Special::Parse), [97, 257, 98, 259]);
    assert_eq!(tokenizer.encode("<|im_end|>x<|im_end|><unk>", Special::Parse), [258, 257, 260]);
    assert_eq!(tokenizer.encode("<tool><s>", Special::Plain), [&[259][..], &[60, 115, 62]].concat());
    let spelled = tokenizer.encode("<|im_end|>", Special::Plain);
    assert_eq!(spelled.len(), 10);
    assert_eq!(tokenizer.decode(&spelled, false), "<|im_end|>");
    assert_eq!(tokenizer.encode("<pad>", Special::Parse).len(), 5);
    assert!(tokenizer.encode("", Special::Parse).is_empty());
}

#[test]
fn decoding_hides_control_tokens_unless_asked() {
    let tokenizer = chat_tokenizer();
    let ids = [256, 97, 259, 260, 261, 257, 9999];
    assert_eq!(tokenizer.decode(&ids, false), "a<tool>\u{fffd}");
    assert_eq!(tokenizer.decode(&ids, true), "<s>a<tool><unk><|im_end|>\u{fffd}");
    assert!(tokenizer.check_ids(&[97, 261]).is_ok());
    assert!(tokenizer.check_ids(&ids).unwrap_err().to_string().contains("id 9999 at position 6"));
}

#[test]
fn the_begin_token_is_added_once() {
    let tokenizer = chat_tokenizer();
    assert_eq!(tokenizer.with_bos(vec![97]), [256, 97]);
    assert_eq!(tokenizer.with_bos(vec![256, 97]), [256, 97]);
    assert_eq!(tokenizer.with_bos(Vec::new()), [256]);
    assert_eq!(byte_tokenizer().with_bos(vec![97]), [97]);
}

#[test]
fn the_begin_token_follows_the_file_and_then_the_habit() {
    let with_bos = |pre, add_bos| {
        let source = TokenizerSource { bos: Some(256), add_bos, ..source(pre, &[], &[("<s>", 3)]) };
        build(source).add_bos()
    };
    assert!(with_bos("llama-bpe", None) && !with_bos("llama-bpe", Some(false)));
    assert!(!with_bos("smollm", None) && with_bos("smollm", Some(true)));
    assert!(!build(source("llama-bpe", &[], &[])).add_bos(), "no begin token, no habit");
}

#[test]
fn bytes_that_are_not_utf8_are_named() {
    let message = byte_tokenizer().encode_bytes(b"ok \xff", Special::Plain).unwrap_err().to_string();
    assert!(message.contains("0xff at offset 3"), "{message}");
    assert_eq!(byte_tokenizer().encode_bytes(b"ok", Special::Plain).unwrap(), [111, 107]);
}

#[test]
fn end_tokens_are_the_union_of_all_sources() {
    let more =
        [("<|im_end|>", 1), ("<|eot_id|>", 4), ("<x>", 3), ("<y>", 3), ("<|end|>", 3), ("<|return|>", 3)];
    let end_ids = vec![("tokenizer.ggml.eos_token_id", 258), ("tokenizer.ggml.eos_token_ids", 259)];
    let tokenizer = build(TokenizerSource { end_ids, ..source("gpt-2", &[], &more) });
    assert_eq!(tokenizer.end_ids(), [256, 257, 258, 259, 260, 261]);
    assert!(tokenizer.is_end(256) && !tokenizer.is_end(97) && !tokenizer.is_end(u32::MAX));
    assert!(tokenizer.is_control(256) && tokenizer.is_control(257), "found by text");
    assert_eq!(tokenizer.encode("a<|im_end|>", Special::Parse), [97, 256]);

    let harmony = build(source("gpt-2", &[], &[("<|end|>", 3), ("<|return|>", 3), ("<|call|>", 3)]));
    assert_eq!(harmony.end_ids(), [257, 258]);
}

#[test]
fn text_that_merging_makes_is_not_an_end_marker() {
    let merges = ["< /", "s >", "</ s>"];
    let tokenizer = build(source("gpt-2", &merges, &[]));
    assert_eq!(tokenizer.token_id("</s>"), Some(258));
    assert!(tokenizer.end_ids().is_empty());
}

/// A megabyte of each shape that has made some tokenizer quadratic or run out of its step limit.
#[test]
fn hostile_lengths_take_near_linear_time() {
    let merges = ["a a", "aa aa", "Ġ Ġ", "ĠĠ ĠĠ", "a b", "ab ab"];
    let runs: Vec<String> = (2..40).map(|n| " ".repeat(n)).collect();
    let more: Vec<(&str, i32)> = runs.iter().map(|run| (run.as_str(), 4)).collect();
    let (long, shorter) = (1 << 20, 1 << 18);
    for (pre, more, length) in [
        ("llama-bpe", &[][..], long),
        ("smollm", &[], shorter),
        ("default", &[], shorter),
        ("gpt-2", &more, shorter),
    ] {
        let tokenizer = build(source(pre, &merges, more));
        for unit in ["a", " ", "ab", "\n", "'", " a", "7", "中", "a\u{301}", "<", " \n", "\u{a0}"] {
            for end in ["", "x"] {
                let text = unit.repeat(length / unit.len()) + end;
                let start = Instant::now();
                let ids = tokenizer.encode(&text, Special::Parse);
                let took = start.elapsed();
                assert_eq!(tokenizer.decode(&ids, true).len(), text.len(), "{pre} on {unit:?}");
                // Some 0.2 s on one core; quadratic work would take hours.
                assert!(took < Duration::from_secs(20), "{pre} on {unit:?} took {took:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_text_round_trips(text in "\\PC*|[ a-c\\n'<>|_imends0-9]*") {
        let merges = ["a b", "ab c", "Ġ a", "Ġ Ġ"];
        for pre in ["llama-bpe", "smollm", "default", "gpt-2"] {
            let tokenizer = build(source(pre, &merges, &[("<|im_end|>", 3), ("<tool>", 4)]));
            for special in [Special::Parse, Special::Plain] {
                let ids = tokenizer.encode(&text, special);
                prop_assert_eq!(tokenizer.decode(&ids, true), text.as_str());
                prop_assert!(tokenizer.check_ids(&ids).is_ok());
            }
        }
    }

    #[test]
    fn any_description_is_built_or_refused(
        tokens in prop::collection::vec("[ab ĠĊ<>|]{0,3}", 0..12),
        types in prop::option::of(prop::collection::vec(-1i32..8, 0..12)),
        merges in prop::option::of(prop::collection::vec("[ab Ġ]{0,4}", 0..6)),
        ids in prop::collection::vec(-2i64..14, 0..3),
        bos in prop::option::of(0u32..14),
    ) {
        let source = TokenizerSource {
            model: "gpt2".into(),
            pre: Some("smollm".into()),
            tokens: tokens.iter().collect(),
            token_types: types,
            merges: merges.map(|m| m.iter().collect()),
            bos,
            end_ids: ids.into_iter().map(|id| ("tokenizer.ggml.eos_token_ids", id)).collect(),
            ..TokenizerSource::default()
        };
        if let Ok(tokenizer) = Tokenizer::new(source) {
            let ids = tokenizer.encode("ab ba <a> \n", Special::Parse);
            prop_assert!(tokenizer.check_ids(&ids).is_ok());
        }
    }
}
