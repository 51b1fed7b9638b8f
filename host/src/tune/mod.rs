//! Measured choices: what they are made from, and where they are remembered.
//!
//! [`timer`] times launches, [`store`] keeps answers across runs.

pub mod timer;
pub mod store;
