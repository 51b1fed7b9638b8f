//! GGUF files, model configuration, tokenizer, chat template and execution plan; no device words.

pub mod gguf;
