//! The ops a backend may implement: contracts, formats, StepState and oracles.

pub mod quant;
