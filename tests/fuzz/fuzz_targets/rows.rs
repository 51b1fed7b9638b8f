//! What `cargo fuzz run rows` calls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cajeta_fuzz::rows::run(data));
