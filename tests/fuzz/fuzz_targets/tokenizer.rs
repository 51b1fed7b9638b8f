//! What `cargo fuzz run tokenizer` calls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cajeta_fuzz::tokenizer::run(data));
