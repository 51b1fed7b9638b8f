//! What `cargo fuzz run gguf` calls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cajeta_fuzz::gguf::run(data));
