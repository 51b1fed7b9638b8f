//! Diagnostic records on standard error, as `CAJETA_LOG` asks for them.

use tracing_subscriber::EnvFilter;

use super::failure::{Failure, Outcome};

/// The variable that says which records are shown: `info`, `debug`, `cajeta::lower=trace`, …
const VARIABLE: &str = "CAJETA_LOG";

/// Starts showing records. Without the variable, warnings and errors are shown.
pub(crate) fn start() -> Outcome {
    let wanted = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let wanted = wanted.map(|value| value.to_string_lossy().into_owned()).unwrap_or_else(|| "warn".into());
    let filter = EnvFilter::try_new(&wanted).map_err(|error| {
        Failure::usage(format!(
            "{VARIABLE}={wanted:?} is not understood: {error}; use error, warn, info, debug, trace or target=level"
        ))
    })?;
    let records =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time();
    // A subscriber that is there already belongs to whoever embeds this, and stays.
    let _ = records.with_ansi(false).try_init();
    Ok(())
}
