//! What `cargo fuzz run manifest` calls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cajeta_fuzz::manifest::run(data));
