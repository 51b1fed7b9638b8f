//! Diagnostic records, as the environment and the settings ask for them.

use cajeta::record::{self, StreamError, StreamOptions};
use cajeta::settings::Settings;

use super::failure::{Failure, Outcome};

/// Starts showing and keeping records. Without `CAJETA_LOG`, warnings and errors are shown.
pub(crate) fn start() -> Outcome {
    // Settings that cannot be read are reported by the command that needs them.
    let file = Settings::of_process().ok().and_then(|settings| settings.records);
    record::start(&StreamOptions::of_process(file)).map_err(|error| match error {
        StreamError::Filter { .. } => Failure::usage(error),
        StreamError::File { .. } => Failure::work(error),
    })
}
