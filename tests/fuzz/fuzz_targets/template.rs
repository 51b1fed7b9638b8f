//! What `cargo fuzz run template` calls.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cajeta_fuzz::template::run(data));
