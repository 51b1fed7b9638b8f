//! Rows as something to time: operands of the right sizes with harmless contents, launches over them.
//!
//! [`operands`] works out what a launch of a row needs, [`contents`] what is in it, and [`RowBench`]
//! allocates it and prepares lists, or does so over what a model has in place. [`RowProbe`] is the probe of
//! every family whose rows it can launch.

mod operands;
mod contents;
mod row_bench;
mod tools;
mod sweep;
mod rows_named;
mod row_probe;
mod placed_probe;

pub(in crate::tune) use contents::Random;
pub use operands::{ArgBytes, LayoutBytes, arg_bytes, plain_scalars};
pub use placed_probe::PlacedProbe;
pub use row_bench::RowBench;
pub use row_probe::{Form, Piece, RowProbe};
pub(in crate::tune) use rows_named::rows_named;
pub(in crate::tune) use tools::{Tool, plain_tools, tools};
