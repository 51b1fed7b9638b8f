//! Measured choices: what they are made from, and where they are remembered.
//!
//! [`timer`] times launches, [`store`] keeps answers across runs. [`Tuning`] is both for one device, and
//! settles a question once: fixed by somebody, remembered, or timed. The questions are a family's member
//! for a shape ([`TileFamily`], [`ShapeChoice`]) and the [`probes`]. [`Prewarm`] asks those of a model's
//! launches, and [`Answers`] is what routing gets. [`bench`] makes what is timed, [`key`] names
//! answers, [`calibration`] measures what holds for the whole device.

pub mod timer;
pub mod store;
mod error;
pub mod key;
mod declared;
pub mod overrides;
mod question;
mod asked;
mod others;
mod tuning;
mod site;
mod family;
mod choice;
pub mod bench;
pub mod calibration;
pub mod probes;
mod answers;
mod columns;
mod placed;
mod prewarm;
mod premises;
#[cfg(test)]
mod choice_tests;

pub use answers::Answers;
pub use asked::Asked;
pub use choice::{FamilyProbe, ShapeAnswer, ShapeChoice};
pub use error::TuneError;
pub use family::{KernelSource, TileFamily, Usable, gates_hold};
pub use others::FOREIGN_PERCENT_MAX;
pub use premises::Premises;
pub use prewarm::Prewarm;
pub use question::{ArmId, Found, Keep, Question, Settled, Spent, Timed};
pub use site::{ArgSet, Nowhere, Segments, Site};
pub use tuning::{Hold, Tuning};
