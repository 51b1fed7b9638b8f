//! Weight formats: the GGML block layouts by name and size, and their decoding to `f32`.
//!
//! A weight row of `k` values is `k / block_len` blocks laid end to end, each `block_bytes` long and
//! self-contained. One file holds one family of formats; adding a decoder is one file here and one
//! line in [`format`]'s table.

pub mod format;
pub mod decode;
pub mod float;
pub mod legacy;
pub mod five_bit;
pub mod k_scales;
pub mod q2_k;
pub mod q3_k;
pub mod q4_k;
pub mod q5_k;
pub mod q6_k;
pub mod iq4;
pub mod mxfp4;

pub use decode::{DecodeError, decode_row};
pub use format::{Format, type_name};
