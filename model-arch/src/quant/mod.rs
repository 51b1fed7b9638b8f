//! Quantising values into weight formats, and the reference mat-vec that checks are held against.
//!
//! Formats and their decoding are the catalog's; this side writes blocks. The quantisers round to
//! nearest within the format's range: sound for tests and synthetic models, not a replacement for
//! the importance-weighted ones that published files are made with.

pub mod encode;
mod blocks_of_32;
mod k_ranges;
mod k_signed;
mod uneven;
pub mod matvec;

pub use cajeta_catalog::quant::{DecodeError, Format, decode_row};
pub use encode::{EncodeError, encode_row};
pub use matvec::{MatvecError, reference_matvec};

#[cfg(test)]
mod tales_tests;
