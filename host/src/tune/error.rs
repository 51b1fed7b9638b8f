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
    /// The device failed while something was timed on it.
    #[error("timing {what}: {source}{}", remedy(.source))]
    Timing {
        /// The rows, and their problem.
        what: String,
        /// What it answered.
        source: DeviceError,
    },
    /// A kernel answers something else than the host does.
    #[error("row `{row}` differs from the host's mat-vec: {difference}")]
    Wrong {
        /// The row.
        row: String,
        /// Where, and by how much.
        difference: String,
    },
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
        matches!(self, TuneError::Device(error) | TuneError::Timing { source: error, .. } if error.is_lost())
    }

    /// Whether a kernel was found to answer wrong.
    pub fn is_wrong(&self) -> bool {
        matches!(self, TuneError::Wrong { .. })
    }

    /// That the device failed while `what` was timed: rows, and their problem.
    pub(super) fn timing(what: &dyn Fn() -> String, source: DeviceError) -> TuneError {
        TuneError::Timing { what: what(), source }
    }

    /// What cannot be settled stays as declared, and is said; `what` names it.
    ///
    /// # Errors
    /// A lost device: nothing else will work either.
    pub fn unless_lost(what: &str, asked: Result<(), TuneError>) -> Result<(), TuneError> {
        match asked {
            Err(error) if !error.is_lost() => {
                tracing::warn!(target: "cajeta::tune", "{what} stays as declared, not measured: {error}");
                Ok(())
            }
            asked => asked,
        }
    }
}

/// What to do about a kernel that takes the device with it.
fn remedy(error: &DeviceError) -> &'static str {
    if error.is_lost() {
        "; if it is lost there again, keep the kernel out by a defect record (`Keeping a kernel out` in docs/plugins.md)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_abi::Code;

    #[test]
    fn a_device_that_is_lost_while_timing_is_lost_and_the_rows_are_named() {
        let failed = |code| {
            let source =
                DeviceError { operation: "submit", backend: "fake".into(), code, text: String::new() };
            TuneError::timing(&|| "`a` and `b` at 4x64x256".to_owned(), source)
        };
        let lost = failed(Code::LOST);
        let said = lost.to_string();
        assert!(lost.is_lost() && said.contains("timing `a` and `b` at 4x64x256: submit"), "{said}");
        assert!(said.contains("defect record"), "{said}");
        assert!(TuneError::unless_lost("it", Err(lost)).is_err());
        let full = failed(Code::OUT_OF_MEMORY);
        assert!(!full.is_lost() && !full.to_string().contains("defect"));
        assert!(TuneError::unless_lost("it", Err(full)).is_ok());
    }
}
