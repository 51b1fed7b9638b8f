//! The rows that the probe of a plugin must not run: what the installed defect records name.

use std::path::Path;

use cajeta_plugin_host::SelectOptions;
use cajeta_plugin_host::probe::{Avoided, AvoidedRows};

use super::Defects;
use crate::settings::{self, SettingsError};

/// How this process selects a backend, by its environment, its settings and the installed defect records.
///
/// # Errors
/// As [`settings::select_options`].
pub fn select_options() -> Result<SelectOptions, SettingsError> {
    let mut options = settings::select_options()?;
    options.probe.avoided = Some(AvoidedRows(avoided));
    Ok(options)
}

/// What goes wrong of a plugin's rows. Nothing is warned of: whoever opens the device does that.
fn avoided(backend: &str, library: &Path) -> Vec<Avoided> {
    let mut rows = Defects::avoided(backend, library.parent());
    rows.sort();
    rows.dedup();
    rows
}
