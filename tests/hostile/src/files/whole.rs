//! A whole model, as small as one can be and run on every backend: what cases damage.

use super::draft::{Draft, TensorDraft, value};

/// Values of the hidden state.
const WIDTH: u64 = 64;
/// Values inside the feed-forward part.
const FEED_FORWARD: u64 = 128;
/// Number of the format Q8_0: 32 values in 34 bytes.
const Q8_0: u32 = 8;
/// Number of the format F32.
const F32: u32 = 0;

/// The control tokens, after the bytes and the one merged token.
const CONTROL: [&str; 2] = ["<s>", "</s>"];

/// A `llama` of one layer with a byte-level vocabulary and a chat template.
pub fn whole() -> Draft {
    let mut tokens: Vec<String> = (0..=u8::MAX).map(spelled).collect();
    tokens.push("ab".into());
    let mut types = vec![1; tokens.len()];
    tokens.extend(CONTROL.map(String::from));
    types.extend([3; CONTROL.len()]);
    let mut draft = architecture(tokens.len() as u64);
    draft.set("tokenizer.ggml.model", value::string("gpt2"));
    draft.set("tokenizer.ggml.pre", value::string("gpt-2"));
    draft.set("tokenizer.ggml.tokens", value::strings(&tokens));
    draft.set("tokenizer.ggml.token_type", value::i32s(&types));
    draft.set("tokenizer.ggml.merges", value::strings(&["a b"]));
    draft.set("tokenizer.ggml.bos_token_id", value::u32(257));
    draft.set("tokenizer.ggml.eos_token_id", value::u32(258));
    draft.set("tokenizer.ggml.add_bos_token", value::bool(1));
    draft.set(
        "tokenizer.chat_template",
        value::string("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}"),
    );
    draft
}

/// The same with a vocabulary that merges by scores.
pub fn scored() -> Draft {
    let mut tokens: Vec<String> = ["<unk>", "<s>", "</s>"].map(String::from).into();
    tokens.extend((0..=u8::MAX).map(|byte| format!("<0x{byte:02X}>")));
    let mut types = vec![6; tokens.len()];
    types[..3].copy_from_slice(&[2, 3, 3]);
    let mut draft = architecture(tokens.len() as u64);
    draft.set("tokenizer.ggml.model", value::string("llama"));
    draft.set("tokenizer.ggml.tokens", value::strings(&tokens));
    draft.set("tokenizer.ggml.token_type", value::i32s(&types));
    draft.set("tokenizer.ggml.scores", value::f32s(&vec![0.0; tokens.len()]));
    draft.set("tokenizer.ggml.bos_token_id", value::u32(1));
    draft.set("tokenizer.ggml.eos_token_id", value::u32(2));
    draft
}

/// The character that stands for a byte in byte-level vocabularies.
fn spelled(byte: u8) -> String {
    let prints = |byte: u8| matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let others_before = (0..byte).filter(|other| !prints(*other)).count() as u32;
    let character = if prints(byte) { Some(char::from(byte)) } else { char::from_u32(256 + others_before) };
    character.map(String::from).unwrap_or_default()
}

/// Everything but the tokenizer.
fn architecture(n_vocab: u64) -> Draft {
    let mut draft = Draft {
        magic: *b"GGUF",
        version: 3,
        tensor_count: None,
        key_count: None,
        keys: Vec::new(),
        tensors: Vec::new(),
        alignment: 32,
        data: Vec::new(),
    };
    draft.set("general.architecture", value::string("llama"));
    for (key, number) in [
        ("context_length", 64),
        ("embedding_length", WIDTH as u32),
        ("block_count", 1),
        ("feed_forward_length", FEED_FORWARD as u32),
        ("attention.head_count", 2),
        ("attention.head_count_kv", 1),
    ] {
        draft.set(&format!("llama.{key}"), value::u32(number));
    }
    draft.set("llama.attention.layer_norm_rms_epsilon", value::f32(1e-5));
    add(&mut draft, "token_embd.weight", &[WIDTH, n_vocab], Q8_0);
    add(&mut draft, "blk.0.attn_norm.weight", &[WIDTH], F32);
    add(&mut draft, "blk.0.attn_q.weight", &[WIDTH, WIDTH], Q8_0);
    add(&mut draft, "blk.0.attn_k.weight", &[WIDTH, WIDTH / 2], Q8_0);
    add(&mut draft, "blk.0.attn_v.weight", &[WIDTH, WIDTH / 2], Q8_0);
    add(&mut draft, "blk.0.attn_output.weight", &[WIDTH, WIDTH], Q8_0);
    add(&mut draft, "blk.0.ffn_norm.weight", &[WIDTH], F32);
    add(&mut draft, "blk.0.ffn_gate.weight", &[WIDTH, FEED_FORWARD], Q8_0);
    add(&mut draft, "blk.0.ffn_up.weight", &[WIDTH, FEED_FORWARD], Q8_0);
    add(&mut draft, "blk.0.ffn_down.weight", &[FEED_FORWARD, WIDTH], Q8_0);
    add(&mut draft, "output_norm.weight", &[WIDTH], F32);
    draft
}

/// Adds a tensor: ones where it is F32, small weights of either sign where it is blocks.
fn add(draft: &mut Draft, name: &str, dims: &[u64], format: u32) {
    let offset = draft.data.len().next_multiple_of(draft.alignment);
    draft.data.resize(offset, 0);
    let n_values: u64 = dims.iter().product();
    if format == F32 {
        (0..n_values).for_each(|_| draft.data.extend(1f32.to_le_bytes()));
    } else {
        for block in 0..n_values / 32 {
            // A scale of 2^-11 as binary16, then 32 signed bytes.
            draft.data.extend([0x00, 0x10]);
            draft.data.extend((0..32).map(|at| (((block * 32 + at) * 2_654_435_761) >> 13) as u8));
        }
    }
    // Tensors end on the alignment, so that no padding can be missing harmlessly.
    draft.data.resize(draft.data.len().next_multiple_of(draft.alignment), 0);
    draft.tensors.push(TensorDraft { name: name.into(), dims: dims.into(), format, offset: offset as u64 });
}
