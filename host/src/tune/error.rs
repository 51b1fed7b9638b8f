//! Why something could not be measured or chosen.

use cajeta_catalog::oracle::OracleError;
use cajeta_plugin_host::DeviceError;
use thiserror::Error;

use super::overrides::OverrideError;
use crate::filter::XpuLaunchError;

/// A measurement or a choice that failed.
#[derive(Debug, Error)]
pub enum TuneError {
    /// The device refused or failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No shape of a family can be launched.
    #[error(transparent)]
    Launch(#[from] XpuLaunchError),
    /// The sizes of a row's operands cannot be worked out.
    #[error("timing row `{row}`: {reason}")]
    Size {
        /// The row.
        row: String,
        /// The contradiction.
        reason: OracleError,
    },
    /// Somebody fixed a choice that is none.
    #[error(transparent)]
    Override(#[from] OverrideError),
    /// There is no way to time it.
    #[error("{what} cannot be timed: {why}")]
    Untimed {
        /// What was to be timed.
        what: String,
        /// Why not.
        why: String,
    },
}

impl TuneError {
    /// Whether the device is gone for good, so that nothing else will work either.
    pub fn is_lost(&self) -> bool {
        matches!(self, TuneError::Device(error) if error.is_lost())
    }
}
