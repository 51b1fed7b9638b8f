//! A GGUF file, and everything that is read from one before a device is chosen.

use std::path::Path;

use cajeta_catalog::quant::Format;
use cajeta_model_arch::config::ModelConfig;
use cajeta_model_arch::gguf::writer::{Header, WriteError};
use cajeta_model_arch::gguf::{GgufFile, MetaValue, StringArray};
use cajeta_model_arch::plan::Plan;
use cajeta_model_arch::template::ChatTemplate;
use cajeta_model_arch::tokenizer::{Special, Tokenizer};

use crate::Target;

/// This target.
pub const TARGET: Target = Target {
    name: "gguf",
    run,
    seeds,
    words: &["general.architecture", "tokenizer.ggml.model", "split.count", "yarn", "blk.0.", "GGUF"],
    replays: 60_000,
};

/// Longest context that a plan is made for: longer ones only make longer tables.
const CONTEXT: u32 = 4096;

/// Reads a file as far as it can be read; what is taken keeps its promises.
pub fn run(data: &[u8]) {
    let file = match GgufFile::from_bytes(Path::new("input.gguf"), data) {
        Ok(file) => file,
        Err(error) => {
            assert!(error.to_string().starts_with("input.gguf: "), "{error}");
            return;
        }
    };
    for tensor in file.tensors() {
        assert_eq!(file.data(tensor).len() as u64, tensor.bytes, "{tensor:?}");
        assert!(tensor.n_values() > 0 && tensor.row_len() * tensor.n_rows() == tensor.n_values());
        assert!(file.tensor(&tensor.name).is_some_and(|found| found == tensor));
    }
    assert!(file.metadata().iter().all(|(key, _)| file.metadata().get(key).is_some()));
    if let Ok(config) = ModelConfig::from_gguf(&file) {
        let _ = Plan::build(&config, &file);
        let _ = Plan::build_for_context(&config, &file, config.n_ctx_train.min(CONTEXT));
    }
    if let Ok(tokenizer) = Tokenizer::from_gguf(file.metadata()) {
        let ids = tokenizer.encode("ab <s> \u{e9}", Special::Parse);
        assert!(tokenizer.check_ids(&ids).is_ok());
        let _ = ChatTemplate::from_gguf(file.metadata(), &tokenizer);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for architecture in ["llama", "qwen2", "qwen3", "gemma2", "gemma3", "phi3"] {
        seeds.extend(model(architecture, |_| {}));
    }
    seeds.extend(model("llama", |header| {
        header.set("llama.rope.scaling.type", "yarn");
        header.set("llama.rope.scaling.factor", 4f32);
        header.set("llama.rope.scaling.original_context_length", 64u32);
        header.set("llama.attention.sliding_window", 16u32);
        // A power of two is never refused.
        let _ = header.align(64);
        header.set("general.extra", MetaValue::I64(-1));
    }));
    seeds.extend(model("phi3", |header| {
        header.set("phi3.rope.scaling.type", "longrope");
        header.set("phi3.rope.scaling.original_context_length", 64u32);
        header.set("phi3.rope.scaling.attn_factor", 1.2f32);
        header.set("tokenizer.ggml.eos_token_ids", vec![1u32, 2]);
    }));
    seeds
}

/// A complete model of one layer and eight values, whose weights are zeros.
fn model(architecture: &str, change: impl FnOnce(&mut Header)) -> Result<Vec<u8>, WriteError> {
    let mut header = Header::new();
    header.set("general.architecture", architecture);
    for (key, value) in [
        ("context_length", 256u32),
        ("embedding_length", 8),
        ("block_count", 1),
        ("feed_forward_length", 16),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
        ("attention.sliding_window", 32),
    ] {
        header.set(&format!("{architecture}.{key}"), value);
    }
    header.set(&format!("{architecture}.attention.layer_norm_rms_epsilon"), 1e-5f32);
    describe_tokenizer(&mut header, architecture != "qwen2");
    header.set("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");
    change(&mut header);
    let mut bytes = header.tensor("token_embd.weight", &[8, 8], Format::F32)?;
    bytes += header.tensor("output_norm.weight", &[8], Format::F32)?;
    let parts: &[(&str, &[u64])] = &[
        ("attn_norm", &[8]),
        ("attn_q", &[8, 8]),
        ("attn_k", &[8, 4]),
        ("attn_v", &[8, 4]),
        ("attn_qkv", &[8, 16]),
        ("attn_output", &[8, 8]),
        ("attn_q_norm", &[4]),
        ("attn_k_norm", &[4]),
        ("post_attention_norm", &[8]),
        ("ffn_norm", &[8]),
        ("ffn_gate", &[8, 16]),
        ("ffn_up", if architecture == "phi3" { &[8, 32] } else { &[8, 16] }),
        ("ffn_down", &[16, 8]),
        ("post_ffw_norm", &[8]),
    ];
    for (part, dims) in parts.iter().filter(|(part, _)| belongs(architecture, part)) {
        bytes += header.tensor(&format!("blk.0.{part}.weight"), dims, Format::F32)?;
    }
    if architecture == "qwen2" {
        for (part, width) in [("attn_q", 8), ("attn_k", 4), ("attn_v", 4)] {
            bytes += header.tensor(&format!("blk.0.{part}.bias"), &[width], Format::F32)?;
        }
    }
    let mut writer = header.begin(Vec::new())?;
    writer.write(&vec![0; bytes as usize])?;
    writer.finish()
}

fn belongs(architecture: &str, part: &str) -> bool {
    match part {
        "attn_q" | "attn_k" | "attn_v" | "ffn_gate" => architecture != "phi3",
        "attn_qkv" => architecture == "phi3",
        "attn_q_norm" | "attn_k_norm" => matches!(architecture, "qwen3" | "gemma3"),
        "post_attention_norm" | "post_ffw_norm" => architecture.starts_with("gemma"),
        _ => true,
    }
}

fn describe_tokenizer(header: &mut Header, scored: bool) {
    let tokens = ["<unk>", "<s>", "</s>", "<0x61>", "a", "b", "ab", "\u{2581}"];
    header.set("tokenizer.ggml.tokens", tokens.into_iter().collect::<StringArray>());
    header.set("tokenizer.ggml.token_type", vec![2i32, 3, 3, 6, 1, 1, 1, 1]);
    header.set("tokenizer.ggml.bos_token_id", 1u32);
    header.set("tokenizer.ggml.eos_token_id", 2u32);
    if scored {
        header.set("tokenizer.ggml.model", "llama");
        header.set("tokenizer.ggml.scores", vec![0f32, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0]);
        header.set("tokenizer.ggml.add_space_prefix", false);
    } else {
        header.set("tokenizer.ggml.model", "gpt2");
        header.set("tokenizer.ggml.pre", "qwen2");
        header.set("tokenizer.ggml.merges", ["a b"].into_iter().collect::<StringArray>());
        header.set("tokenizer.ggml.add_bos_token", false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_models_whose_plans_can_be_made() {
        for (number, seed) in seeds().iter().enumerate() {
            let file = GgufFile::from_bytes(Path::new("seed"), seed).unwrap();
            let config = ModelConfig::from_gguf(&file).unwrap();
            let plan = Plan::build(&config, &file);
            // The last has no tables for its long rope.
            assert_eq!(plan.is_ok(), number < 7, "seed {number}: {:?}", plan.err());
            Tokenizer::from_gguf(file.metadata()).unwrap();
        }
        assert_eq!(seeds().len(), 8);
    }
}
