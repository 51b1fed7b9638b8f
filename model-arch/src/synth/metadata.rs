//! The metadata of a synthetic model: shape, rope and a complete tokenizer.

use super::SynthOptions;
use super::vocabulary::{CONTROL, Vocabulary};
use crate::config::RopeScaling;
use crate::gguf::writer::Header;

/// Turns of a conversation between two markers, as simple as a template can be.
const CHAT_TEMPLATE: &str = "{{ bos_token }}{% for message in messages %}\
{% if message['role'] == 'assistant' %}{{ '<|assistant|>' + message['content'] + '<|end_of_text|>' }}\
{% else %}{{ '<|user|>' + message['content'] }}{% endif %}\
{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}";

/// Sets every key.
pub(super) fn describe(options: &SynthOptions, header: &mut Header) {
    let SynthOptions { architecture, shape, recipe, seed, context, .. } = options;
    header.set("general.architecture", architecture.as_str());
    header.set("general.type", "model");
    header.set("general.name", format!("synthetic {} {recipe}", shape.name));
    header
        .set("general.description", format!("Random weights, seed {seed}: for measuring and testing only."));
    header.set("general.file_type", recipe.file_type());
    header.set("general.quantization_version", 2u32);
    let mut set = |key: &str, value: u32| header.set(&format!("{architecture}.{key}"), value);
    set("vocab_size", shape.n_vocab);
    set("context_length", context.unwrap_or(shape.n_ctx_train));
    set("embedding_length", shape.n_embd);
    set("block_count", shape.n_layer);
    set("feed_forward_length", shape.n_ff);
    set("attention.head_count", shape.n_head);
    set("attention.head_count_kv", shape.n_head_kv);
    set("attention.key_length", shape.head_dim);
    set("attention.value_length", shape.head_dim);
    set("rope.dimension_count", shape.head_dim);
    let mut set = |key: &str, value: f32| header.set(&format!("{architecture}.{key}"), value);
    set("attention.layer_norm_rms_epsilon", shape.norm_eps);
    set("rope.freq_base", shape.rope_base);
    if architecture == "gemma2" {
        set("attn_logit_softcapping", 50.0);
        set("final_logit_softcapping", 30.0);
    }
    if let Some(window) = shape.sliding_window {
        header.set(&format!("{architecture}.attention.sliding_window"), window);
    }
    let scaling = |key: &str| format!("{architecture}.rope.scaling.{key}");
    match shape.rope_scaling {
        RopeScaling::None => {}
        RopeScaling::Linear { factor } => {
            header.set(&scaling("type"), "linear");
            header.set(&scaling("factor"), factor);
        }
        RopeScaling::Yarn(yarn) => {
            header.set(&scaling("type"), "yarn");
            header.set(&scaling("factor"), yarn.factor);
            header.set(&scaling("original_context_length"), yarn.original_ctx);
        }
        RopeScaling::LongRope { original_ctx, attn_factor } => {
            header.set(&scaling("type"), "longrope");
            header.set(&scaling("original_context_length"), original_ctx);
            header.set(&scaling("attn_factor"), attn_factor);
        }
    }
    let Vocabulary { tokens, types, merges } = Vocabulary::synthetic(shape.n_vocab);
    let bos = shape.n_vocab - CONTROL.len() as u32;
    header.set("tokenizer.ggml.model", "gpt2");
    header.set("tokenizer.ggml.pre", "llama-bpe");
    header.set("tokenizer.ggml.tokens", tokens);
    header.set("tokenizer.ggml.token_type", types);
    header.set("tokenizer.ggml.merges", merges);
    header.set("tokenizer.ggml.bos_token_id", bos);
    header.set("tokenizer.ggml.eos_token_id", bos + 1);
    header.set("tokenizer.ggml.padding_token_id", bos + 1);
    header.set("tokenizer.ggml.add_bos_token", true);
    header.set("tokenizer.ggml.add_eos_token", false);
    header.set("tokenizer.chat_template", CHAT_TEMPLATE);
}
