//! Measured choices: what they are made from, and where they are remembered.
//!
//! [`store`] keeps answers across runs.

pub mod store;
