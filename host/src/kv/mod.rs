//! The paged K/V cache: which blocks a sequence owns, and the device planes behind them.

mod blocks;
mod pool;

pub use blocks::{BlockPool, BlockTable};
pub use pool::{KvPool, KvPoolError};
