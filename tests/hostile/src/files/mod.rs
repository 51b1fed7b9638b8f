//! Model files that are damaged, absurd or lying, each with what must be said of it.
//!
//! A [`Draft`] writes any bytes that look like a GGUF file, right or wrong; [`whole`] is one that runs. [`cases`]
//! are drafts with one thing wrong each. The tests of `model-arch` read them in the process, those of
//! `host` give them to the real program.

mod draft;
mod whole;
mod case;
mod header;
mod metadata;
mod tensors;
mod vocabulary;

pub use case::{Case, Finder};
pub use draft::{Draft, Key, TensorDraft, value};
pub use whole::{scored, whole};

/// Every case.
pub fn cases() -> Vec<Case> {
    let mut cases = header::cases();
    cases.extend(metadata::cases());
    cases.extend(tensors::cases());
    cases.extend(vocabulary::cases());
    cases
}
