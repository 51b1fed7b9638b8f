//! Rows as something to time: operands of the right sizes with harmless contents, launches over them.
//!
//! [`operands`] works out what a launch of a row needs, [`contents`] what is in it, and [`RowBench`]
//! allocates it and prepares lists, or does so over what a model has in place. [`RowProbe`] is the probe of every family whose rows it can launch.

mod operands;
mod contents;
mod row_bench;
mod sweep;
mod row_probe;

pub(in crate::tune) use contents::Random;
pub use operands::{ArgBytes, LayoutBytes, arg_bytes, plain_scalars};
pub use row_bench::RowBench;
pub use row_probe::{Form, Piece, PlacedProbe, RowProbe};
