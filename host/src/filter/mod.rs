//! The feasibility filter: which shapes of a kernel a device can run at a problem, by the driver's facts
//! and the compiler's, without a table of devices.
//!
//! A family's rows become [`Candidate`]s; [`ShapeFilter`] holds each against the rules R1 to R6. Nothing
//! is dropped in silence: a pruned candidate keeps its rule, its need and the limit, and when none is
//! left the error names them all. A fact that is absent prunes nothing.

mod kernel;
mod rule;
mod grain;
mod shape_filter;
#[cfg(test)]
pub(crate) mod recorded;
#[cfg(test)]
mod tests;

pub use grain::Grain;
pub use kernel::KernelFacts;
pub use rule::{Fill, Padding, Pruned, Rule};
pub use shape_filter::{Candidate, Filtered, ShapeFilter, Survivor, XpuLaunchError};
