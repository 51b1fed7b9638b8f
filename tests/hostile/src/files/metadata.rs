//! Files whose keys and values are wrong.

use super::case::{Case, Finder};
use super::draft::{Draft, Key, value};
use super::whole::whole;

/// Malformed keys, keys of the wrong type, missing and doubled ones, values no model has.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = malformed();
    cases.extend(alignments());
    cases.extend(missing());
    cases.extend(wrong_types());
    cases.extend(absurd_values());
    cases
}

fn opened(name: &str, says: &str, change: impl FnOnce(&mut Draft)) -> Case {
    Case::of(name, whole(), change, (Finder::Open, says))
}

fn extra(name: &str, says: &str, value: Vec<u8>) -> Case {
    opened(name, says, |draft| draft.set("x.extra", value))
}

fn malformed() -> Vec<Case> {
    let mut nested = value::array(0, 1, &[7]);
    for _ in 0..5 {
        nested = value::array(9, 1, &nested[4..]);
    }
    let huge = |count: u64| value::array(5, count, &[0; 12]);
    vec![
        extra("value-type-13", "\"x.extra\" has value type 13", value::raw(13, &[0; 8])),
        extra("bool-2", "\"x.extra\" holds the bool 2", value::bool(2)),
        extra("string-not-utf8", "\"x.extra\" is not valid UTF-8", value::string(b"a\xff\xfe")),
        extra(
            "strings-not-utf8",
            "element 1 of metadata key \"x.extra\" is not valid UTF-8",
            value::strings(&[&b"a"[..], b"\xc3"]),
        ),
        extra("string-of-all-bytes", "the length of metadata key \"x.extra\"", value::raw(8, &[0xff; 8])),
        extra("array-too-deep", "the array depth of metadata key \"x.extra\"", nested),
        extra("array-of-2-to-the-60", "the array length of metadata key \"x.extra\"", huge(1 << 60)),
        extra("array-of-2-to-the-24", "needs 67108864 bytes", huge(1 << 24)),
        extra(
            "arrays-without-end",
            "the array length of metadata key \"x.extra\"",
            value::array(9, u64::MAX, &[]),
        ),
        opened("key-twice", "\"llama.block_count\" stands twice", |draft| {
            draft.keys.push(Key { name: b"llama.block_count".into(), value: value::u32(1) });
        }),
        opened("key-empty", "is empty", |draft| draft.key("llama.block_count").name.clear()),
        opened("key-not-utf8", "is not valid UTF-8", |draft| {
            draft.key("llama.block_count").name = b"llama.\xff".into();
        }),
        opened("key-too-long", "the length of metadata key number", |draft| {
            draft.key("llama.block_count").name = vec![b'a'; 70_000];
        }),
    ]
}

fn alignments() -> Vec<Case> {
    let odd = |(name, value): (&str, Vec<u8>)| {
        opened(&format!("alignment-{name}"), "general.alignment", |draft| {
            draft.set("general.alignment", value);
        })
    };
    let mut cases: Vec<Case> = [
        ("0", value::u32(0)),
        ("24", value::u32(24)),
        ("2-to-the-31", value::u32(1 << 31)),
        ("negative", value::i32(-32)),
        ("text", value::string("32")),
        ("real", value::f32(32.0)),
    ]
    .into_iter()
    .map(odd)
    .collect();
    // Allowed, and then nothing lies where the table says.
    cases.push(opened("alignment-1-MiB", "but the data section has 0", |draft| {
        draft.set("general.alignment", value::u32(1 << 20));
    }));
    cases
}

/// Keys that nothing can run without, and who misses them.
fn missing() -> Vec<Case> {
    let keys = [
        ("general.architecture", Finder::Model),
        ("llama.context_length", Finder::Model),
        ("llama.embedding_length", Finder::Model),
        ("llama.block_count", Finder::Model),
        ("llama.feed_forward_length", Finder::Model),
        ("llama.attention.head_count", Finder::Model),
        ("llama.attention.layer_norm_rms_epsilon", Finder::Model),
        ("tokenizer.ggml.model", Finder::Tokenizer),
        ("tokenizer.ggml.pre", Finder::Tokenizer),
        ("tokenizer.ggml.tokens", Finder::Tokenizer),
        ("tokenizer.ggml.merges", Finder::Tokenizer),
        ("tokenizer.ggml.bos_token_id", Finder::Tokenizer),
    ];
    let without =
        |(key, finder)| Case::of(format!("no-{key}"), whole(), |draft| draft.remove(key), (finder, key));
    keys.into_iter().map(without).collect()
}

fn wrong_types() -> Vec<Case> {
    let keys = [
        ("general.architecture", value::u32(1), Finder::Model),
        ("general.architecture", value::strings(&["llama"]), Finder::Model),
        ("general.type", value::bool(1), Finder::Model),
        ("general.name", value::u32(7), Finder::Model),
        ("llama.block_count", value::string("1"), Finder::Model),
        ("llama.block_count", value::f32(1.0), Finder::Model),
        ("llama.embedding_length", value::bool(1), Finder::Model),
        ("llama.feed_forward_length", value::i32s(&[128]), Finder::Model),
        ("llama.attention.head_count_kv", value::strings(&["1"]), Finder::Model),
        ("llama.attention.layer_norm_rms_epsilon", value::u32(1), Finder::Model),
        ("llama.rope.freq_base", value::string("10000"), Finder::Model),
        ("llama.rope.scaling.type", value::u32(1), Finder::Model),
        ("tokenizer.ggml.model", value::u32(1), Finder::Tokenizer),
        ("tokenizer.ggml.pre", value::strings(&["gpt-2"]), Finder::Tokenizer),
        ("tokenizer.ggml.tokens", value::i32s(&[1, 2]), Finder::Tokenizer),
        ("tokenizer.ggml.token_type", value::f32s(&[1.0]), Finder::Tokenizer),
        ("tokenizer.ggml.merges", value::string("a b"), Finder::Tokenizer),
        ("tokenizer.ggml.bos_token_id", value::string("<s>"), Finder::Tokenizer),
        ("tokenizer.ggml.add_bos_token", value::u32(1), Finder::Tokenizer),
        ("tokenizer.ggml.eos_token_ids", value::string("2"), Finder::Tokenizer),
        ("tokenizer.chat_template", value::u32(1), Finder::Model),
    ];
    let numbered = keys.into_iter().enumerate();
    let with = |(number, (key, value, finder)): (usize, (&str, Vec<u8>, Finder))| {
        let name = format!("wrong-type-{number}-{key}");
        Case::of(name, whole(), |draft| draft.set(key, value), (finder, key))
    };
    numbered.map(with).collect()
}

fn absurd_values() -> Vec<Case> {
    let values = [
        ("general.architecture", value::string("mamba9"), "unknown architecture \"mamba9\""),
        ("general.architecture", value::string(""), "unknown architecture \"\""),
        ("general.type", value::string("adapter"), "\"adapter\" (general.type), not a model"),
        ("split.count", value::u32(4), "one of 4 parts"),
        ("llama.block_count", value::u32(0), "\"llama.block_count\" is 0"),
        ("llama.block_count", value::u32(u32::MAX), "\"llama.block_count\" is 4294967295"),
        ("llama.block_count", value::i32(-1), "got -1"),
        ("llama.block_count", value::u32(2), "tensor `blk.1."),
        ("llama.context_length", value::u32(0), "\"llama.context_length\" is 0"),
        ("llama.context_length", value::raw(10, &[0xff; 8]), "got 18446744073709551615"),
        ("llama.embedding_length", value::u32(u32::MAX), "\"llama.embedding_length\" is 4294967295"),
        ("llama.embedding_length", value::u32(96), "token_embd.weight"),
        ("llama.feed_forward_length", value::u32(0), "\"llama.feed_forward_length\" is 0"),
        ("llama.feed_forward_length", value::u32(160), "blk.0.ffn_"),
        ("llama.attention.head_count", value::u32(0), "\"llama.attention.head_count\" is 0"),
        ("llama.attention.head_count", value::u32(3), "does not split into 3 heads"),
        ("llama.attention.head_count_kv", value::u32(0), "\"llama.attention.head_count_kv\" is 0"),
        ("llama.attention.head_count_kv", value::u32(3), "cannot share 3"),
        ("llama.attention.key_length", value::u32(u32::MAX), "key_length"),
        ("llama.attention.layer_norm_rms_epsilon", value::f32(f32::NAN), "is NaN"),
        ("llama.attention.layer_norm_rms_epsilon", value::f32(-1.0), "is -1"),
        ("llama.rope.freq_base", value::f32(f32::INFINITY), "is inf"),
        ("llama.rope.dimension_count", value::u32(31), "rotary dimension 31"),
        ("llama.rope.scaling.type", value::string("bend"), "rope scaling \"bend\""),
        ("llama.expert_count", value::u32(8), "8 experts"),
    ];
    let numbered = values.into_iter().enumerate();
    let with = |(number, (key, value, says)): (usize, (&str, Vec<u8>, &str))| {
        let name = format!("absurd-{number}-{key}");
        Case::of(name, whole(), |draft| draft.set(key, value), (Finder::Model, says))
    };
    numbered.map(with).collect()
}
