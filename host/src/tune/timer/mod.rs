//! Times launches: brackets of twenty, a warm round, five interleaved rounds, medians.
//!
//! [`face`] is what is asked of a queue, [`clock`] holds the device's clock against the host's, and
//! [`KernelTimer`] compares arms. Nothing here knows what is launched.

mod face;
mod clock;
mod kernel_timer;
mod verdict;
#[cfg(test)]
pub(crate) mod fake;

pub use clock::{Clock, Tier};
pub use face::{DeviceQueue, TimedQueue};
pub use kernel_timer::{Arm, BRACKET_NS, KernelTimer, LAUNCHES, ROUNDS};
pub use verdict::{TIE_PERCENT, Verdict, median};
