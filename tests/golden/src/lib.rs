//! Holds an engine against exact logits of real models.
//!
//! [`reference`] reads the recorded paths, [`place`] finds models and data, [`fidelity`] computes the
//! distances and states the bounds. [`architectures`] makes random models of every architecture, and [`full_size`]
//! ones as wide and as long as an 8B; both hold backends against the plain forward pass of [`forward`].
//! [`independent`] holds them against logits that a script of its own computed.
//! [`batched`] holds answers generated together against those generated alone.

pub mod place;
pub mod reference;
pub mod fidelity;
pub mod forward;
pub mod random_model;
pub mod architectures;
pub mod independent;
pub mod full_size;
pub mod batched;
