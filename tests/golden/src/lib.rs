//! Holds an engine against exact logits of real models.
//!
//! [`reference`] reads the recorded paths, [`place`] finds models and data, [`fidelity`] computes the
//! distances and states the bounds.

pub mod place;
pub mod reference;
pub mod fidelity;
