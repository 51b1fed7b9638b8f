//! Runs GGUF language models on whatever backend plugins are installed.
