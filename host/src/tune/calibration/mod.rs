//! Device-wide facts that no driver knows, measured with the backend's own rows.
//!
//! [`fact`] lists them, [`record`] holds what was measured and for which device, driver, compiler and
//! power mode. [`calibrate`] measures: [`bandwidth`], [`peaks`], [`edges`]. [`store`] serves records:
//! those shipped with the plugin first, then the platform's folder; [`file`] reads both kinds of files and
//! believes nothing that cannot be. What a backend's rows cannot measure
//! is absent, with the reason, and never guessed.

mod fact;
mod record;
mod calibrate;
mod rows;
mod bandwidth;
mod peaks;
mod edges;
mod file;
mod store;

pub use calibrate::calibrate;
pub use fact::CalibrationFact;
pub use record::{CalibrationKey, CalibrationRecord, Measured};
pub use store::{CalibrationStore, Origin};
