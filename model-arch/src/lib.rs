//! GGUF files, model configuration, tokenizer, chat template and execution plan; no device words.
