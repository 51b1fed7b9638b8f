//! Fuzz targets: functions of bytes that may refuse them and may not crash, hang or break a promise.
//!
//! `cargo fuzz` explores them (`fuzz_targets/`); an ordinary test replays each target's corpus and a
//! fixed number of mutations of it (`tests/replay.rs`). Both call the same functions.

pub mod gguf;
pub mod tokenizer;
pub mod template;
pub mod manifest;
pub mod rows;
pub mod mutation;

/// One target.
pub struct Target {
    /// Its name, which is also that of its folder below `corpus`.
    pub name: &'static str,
    /// What it does with an input; it panics when a promise is broken.
    pub run: fn(&[u8]),
    /// Inputs that reach far, so that mutations of them do.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Pieces that mutations put in.
    pub words: &'static [&'static str],
    /// Mutations that a replay tries; some seconds' worth.
    pub replays: u32,
}

/// Every target.
pub const TARGETS: [Target; 5] =
    [gguf::TARGET, tokenizer::TARGET, template::TARGET, manifest::TARGET, rows::TARGET];
