//! Configurations read from small files: defaults, refusals, and the shared test model.

use super::*;
use crate::gguf::writer::Header;
use crate::gguf::{MetaValue, StringArray};
use cajeta_catalog::quant::Format;

/// Reads the configuration of a good model after `change`.
fn read(change: impl FnOnce(&mut Header)) -> Result<ModelConfig, ConfigError> {
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
    let mut writer = header.begin(std::fs::File::create(&path).unwrap()).unwrap();
    writer.write(&[0; 64 * 10 * 4]).unwrap();
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
    assert_eq!(yarn.rope.scaling, RopeScaling::Yarn { factor: 1.0, original_ctx: 128 });
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
    assert!(refused("rope.scaling.type", "longrope").contains("rope scaling \"longrope\""));
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
