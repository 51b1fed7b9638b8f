//! Configurations read from small files: defaults, refusals, and the shared test model.

use super::*;
use crate::gguf::writer::Header;
use crate::gguf::{MetaValue, StringArray};
use cajeta_catalog::quant::Format;

/// Reads the configuration of a good model after `change`.
fn read(change: impl FnOnce(&mut Header)) -> Result<ModelConfig, ConfigError> {
    read_beside(&[], change)
}

/// As [`read`], of a file that has also vectors of 8 values by these names.
fn read_beside(vectors: &[&str], change: impl FnOnce(&mut Header)) -> Result<ModelConfig, ConfigError> {
    let mut header = Header::new();
    header.set("general.architecture", "llama");
    for (key, value) in [
        ("context_length", 128u32),
        ("embedding_length", 64),
        ("block_count", 2),
        ("feed_forward_length", 96),
        ("attention.head_count", 4),
        ("attention.head_count_kv", 2),
    ] {
        header.set(&format!("llama.{key}"), value);
    }
    header.set("llama.attention.layer_norm_rms_epsilon", 1e-5f32);
    change(&mut header);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    header.tensor(EMBEDDING_TENSOR, &[64, 10], Format::F32).unwrap();
    for name in vectors {
        header.tensor(name, &[8], Format::F32).unwrap();
    }
    let mut writer = header.begin(std::fs::File::create(&path).unwrap()).unwrap();
    writer.write(&vec![0; 64 * 10 * 4 + vectors.len() * 8 * 4]).unwrap();
    writer.finish().unwrap();
    ModelConfig::from_gguf(&GgufFile::open(&path).unwrap())
}

/// The message when `llama.KEY` is `value`.
fn refused(key: &str, value: impl Into<MetaValue>) -> String {
    read(|header| header.set(&format!("llama.{key}"), value)).unwrap_err().to_string()
}

#[test]
fn defaults_follow_from_the_required_keys() {
    let config = read(|_| {}).unwrap();
    assert_eq!((config.n_vocab, config.head_dim_k, config.head_dim_v, config.group_size()), (10, 16, 16, 2));
    assert_eq!(config.rope, RopeConfig { dim: 16, base: 10_000.0, scaling: RopeScaling::None });
    assert_eq!((config.n_embd_q(), config.n_embd_k(), config.n_embd_v(), config.name), (64, 32, 32, None));
}

#[test]
fn given_values_win_over_defaults() {
    let config = read(|header| {
        header.set("llama.attention.key_length", 24u32);
        header.set("llama.rope.dimension_count", 8u32);
        header.set("llama.rope.freq_base", 5e5f32);
        header.set("llama.rope.scaling.type", "linear");
        header.set("llama.rope.scaling.factor", 4f32);
        header.set("llama.vocab_size", 99u32);
        header.set("general.name", "sample");
    })
    .unwrap();
    assert_eq!((config.head_dim_k, config.head_dim_v, config.n_embd_q()), (24, 16, 96));
    assert_eq!(config.rope, RopeConfig { dim: 8, base: 5e5, scaling: RopeScaling::Linear { factor: 4.0 } });
    assert_eq!((config.n_vocab, config.name.as_deref()), (10, Some("sample")));
    let yarn = read(|header| header.set("llama.rope.scaling.type", "yarn")).unwrap();
    assert_eq!(yarn.rope.scaling, RopeScaling::Yarn(rope::Yarn::usual(1.0, 128)));
}

#[test]
fn absurd_values_are_refused_by_key() {
    for (key, value, says) in [
        ("block_count", 0u32, "\"llama.block_count\" is 0; expected 1 to 4096"),
        ("block_count", 5000, "is 5000"),
        ("embedding_length", u32::MAX, "\"llama.embedding_length\""),
        ("embedding_length", 65, "does not split into 4 heads"),
        ("embedding_length", 128, "\"token_embd.weight\" has the shape [64, 10]; expected [128,"),
        ("attention.head_count_kv", 3, "4 query heads cannot share 3"),
        ("attention.head_count_kv", 0, "expected 1 to"),
        ("rope.dimension_count", 7, "must be even"),
        ("rope.dimension_count", 18, "at most the head size 16"),
        ("context_length", 0, "\"llama.context_length\""),
        ("expert_count", 8, "8 experts"),
    ] {
        let message = refused(key, value);
        assert!(message.contains(says) && message.contains("model.gguf"), "{key} = {value}: {message}");
    }
    assert!(refused("rope.freq_base", f32::NAN).contains("\"llama.rope.freq_base\" is NaN"));
    assert!(refused("attention.layer_norm_rms_epsilon", -1f32).contains("expected a number above 0"));
    assert!(refused("attention.head_count", vec![4u32, 4]).contains("one value per layer"));
    assert!(refused("feed_forward_length", "wide").contains("expected an integer, got a string"));
    assert!(refused("rope.scaling.type", "spiral").contains("rope scaling \"spiral\""));
}

#[test]
fn other_files_are_refused_by_what_they_are() {
    let refused =
        |key: &str, value: MetaValue| read(|header| header.set(key, value)).unwrap_err().to_string();
    let unknown = refused("general.architecture", "mamba".into());
    assert!(unknown.contains("unknown architecture \"mamba\": this build runs llama"), "{unknown}");
    assert!(refused("general.type", "adapter".into()).contains("\"adapter\""));
    assert!(refused("split.count", 3u32.into()).contains("one of 3 parts"));
    let tokens: StringArray = (0..11).map(|i| i.to_string()).collect();
    assert!(refused("tokenizer.ggml.tokens", tokens.into()).contains("11 tokens"));
    let empty = Header::new().begin(Vec::new()).unwrap().finish().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.gguf");
    std::fs::write(&path, empty).unwrap();
    let message = ModelConfig::from_gguf(&GgufFile::open(&path).unwrap()).unwrap_err().to_string();
    assert!(message.ends_with("metadata key \"general.architecture\" is missing"), "{message}");
}

#[test]
fn windows_scale_and_bases_follow_the_architecture() {
    let of = |architecture: &'static str, layers: u32, more: &dyn Fn(&mut Header)| {
        read(|header| {
            let llama: Vec<(String, MetaValue)> = header_keys(architecture, layers);
            header.set("general.architecture", architecture);
            llama.into_iter().for_each(|(key, value)| header.set(&key, value));
            more(header);
        })
        .unwrap()
    };
    let gemma3 = of("gemma3", 12, &|header| header.set("gemma3.attention.sliding_window", 32u32));
    assert_eq!(gemma3.attention.windows, [32, 32, 32, 32, 32, 0, 32, 32, 32, 32, 32, 0]);
    assert_eq!((gemma3.rope_of(0).base, gemma3.rope_of(5).base), (10_000.0, 1e6));
    let gemma2 = of("gemma2", 3, &|_| ());
    assert_eq!(gemma2.attention.windows, [4096, 0, 4096]);
    assert_eq!((gemma2.attention.scale, gemma2.rope_of(0).base), (0.25, 1e6));
    // 46 layers are the largest one's, whose scale is of the width per head.
    let largest = of("gemma2", 46, &|header| header.set("gemma2.attention.key_length", 4u32));
    assert_eq!((largest.attention.scale, largest.head_dim_k), (0.25, 4));
    let mistral = of("llama", 2, &|header| header.set("llama.attention.sliding_window", 8u32));
    assert_eq!(mistral.attention.windows, [8, 8]);
    let none = of("phi3", 2, &|header| header.set("phi3.attention.sliding_window", 0u32));
    assert_eq!(none.attention.windows, [0, 0]);
    let listed = of("gemma3", 2, &|header| {
        header.set("gemma3.attention.sliding_window", 8u32);
        header.set("gemma3.attention.sliding_window_pattern", vec![0u32, 1]);
    });
    assert_eq!(listed.attention.windows, [0, 8]);
}

/// The keys of a small model of an architecture.
fn header_keys(architecture: &str, layers: u32) -> Vec<(String, MetaValue)> {
    let integers = [
        ("context_length", 128u32),
        ("embedding_length", 64),
        ("block_count", layers),
        ("feed_forward_length", 96),
        ("attention.head_count", 4),
    ];
    let mut keys: Vec<(String, MetaValue)> =
        integers.iter().map(|&(key, value)| (format!("{architecture}.{key}"), value.into())).collect();
    keys.push((format!("{architecture}.attention.layer_norm_rms_epsilon"), 1e-6f32.into()));
    keys.push((format!("{architecture}.rope.freq_base"), 1e6f32.into()));
    keys
}

#[test]
fn longrope_and_yarn_read_their_numbers() {
    let long = read(|header| {
        header.set("llama.rope.scaling.type", "longrope");
        header.set("llama.rope.scaling.original_context_length", 64u32);
        header.set("llama.rope.scaling.attn_factor", 1.25f32);
    })
    .unwrap();
    assert_eq!(long.rope.scaling, RopeScaling::LongRope { original_ctx: 64, attn_factor: 1.25 });
    let divisors = ["rope_factors_long.weight", "rope_factors_short.weight"];
    let unnamed = |vectors: &[&str]| {
        let config = read_beside(vectors, |header| {
            header.set("llama.rope.scaling.original_context_length", 64u32);
            header.set("llama.rope.scaling.attn_factor", 1.25f32);
        });
        config.unwrap().rope.scaling
    };
    // Conversions of Phi 3 give the tensors and no type.
    assert_eq!(unnamed(&divisors), long.rope.scaling);
    assert_eq!(unnamed(&[]), RopeScaling::None);
    let yarn = read(|header| {
        header.set("llama.rope.scaling.type", "yarn");
        header.set("llama.rope.scaling.factor", 4f32);
        header.set("llama.rope.scaling.original_context_length", 64u32);
        header.set("llama.rope.scaling.yarn_beta_fast", 16f32);
    })
    .unwrap();
    let RopeScaling::Yarn(yarn) = yarn.rope.scaling else { panic!("not yarn") };
    assert_eq!((yarn.factor, yarn.original_ctx, yarn.beta_fast, yarn.beta_slow), (4.0, 64, 16.0, 1.0));
    assert!((yarn.attn_factor - 1.138_629_4).abs() < 1e-6);
}
