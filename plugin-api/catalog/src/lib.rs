//! The ops a backend may implement: contracts, formats, StepState and oracles.
//!
//! A reader walks it in this order: [`quant`] says what a weight's bytes mean,
//! [`op`] numbers the operations, [`contract`] lists each one's operands,
//! [`scalars`] its scalar block, [`state`] the step state in device memory,
//! [`kv`] the paged K/V planes, [`oracle`] what each operation computes.

pub mod quant;
pub mod op;
pub mod scalars;
pub mod contract;
pub mod kv;
pub mod state;
pub mod oracle;
