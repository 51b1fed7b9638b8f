//! GGUF files, model configuration, tokenizer, chat template and execution plan; no device words.

pub mod gguf;
pub mod quant;
pub mod config;
pub mod tokenizer;
pub mod template;
pub mod plan;
mod models;
pub mod synth;
