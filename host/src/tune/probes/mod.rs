//! Probes: comparisons of whole forms, not of members of a family.
//!
//! A probe decides which rows take part ([`cols::pair`], [`fused::parts`]), asks [`super::Tuning`] to
//! settle its question, and says what came of it. What is launched is behind a trait, so that the
//! decision is tested without a device.

mod product_args;
mod host_check;
mod stand_ins;
pub mod cols;
pub mod fused;
pub mod once;
pub mod part_wgs;
