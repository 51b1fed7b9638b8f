//! Probes a plugin in a child process, so that one which crashes, hangs or aborts harms nobody else.
//!
//! [`Process`] and [`set_report_apart`] are the two sides of such a child, for whoever else runs a plugin's
//! code in one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cajeta_abi::Code;

use crate::candidate::{Refusal, Stage};
use crate::device::{DeviceError, DeviceSummary};
use crate::manifest::PluginManifest;

mod avoided;
mod cache;
mod child;
mod kernel;
mod process;
mod report;
mod spawn;

pub use avoided::{Avoided, AvoidedRows, driver_version};
pub use child::{main, set_report_apart};
pub use process::{Heard, Process};

/// The variable that names the seconds a probe may take.
pub const TIME_LIMIT: &str = "CAJETA_PROBE_SECONDS";
/// Seconds a probe may take unless somebody says otherwise.
pub const TIME_LIMIT_DEFAULT: Duration = Duration::from_secs(20);
/// The program that probes.
pub const PROGRAM: &str = "cajeta-probe";

/// How plugins are probed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeOptions {
    /// The program `cajeta-probe`. `None`: it was not found, and nothing can be probed.
    pub program: Option<PathBuf>,
    /// How long a probe may take.
    pub time_limit: Duration,
    /// Folder of stored successes; `None` stores nothing.
    pub cache: Option<PathBuf>,
    /// Who says which rows are known to go wrong and are not run; `None` knows of none.
    pub avoided: Option<AvoidedRows>,
}

impl ProbeOptions {
    /// The options of this process: the program beside the executable, the user's cache folder, the
    /// time limit of [`TIME_LIMIT`].
    pub fn of_process() -> ProbeOptions {
        let elevated = crate::search::is_elevated();
        let seconds = std::env::var(TIME_LIMIT).ok().filter(|_| !elevated);
        let time_limit = seconds
            .and_then(|text| text.trim().parse::<f64>().ok())
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .filter(|limit| !limit.is_zero());
        ProbeOptions {
            program: find_program(),
            time_limit: time_limit.unwrap_or(TIME_LIMIT_DEFAULT),
            cache: crate::search::cache_directory().map(|folder| folder.join("probe")),
            avoided: None,
        }
    }

    /// Probes with `program`, storing nothing: for tests and for programs that ship their own.
    pub fn with_program(program: impl Into<PathBuf>) -> ProbeOptions {
        ProbeOptions {
            program: Some(program.into()),
            time_limit: TIME_LIMIT_DEFAULT,
            cache: None,
            avoided: None,
        }
    }
}

/// The program beside the executable, in the installation's `lib`, or, for an executable that cargo
/// put into a `deps` or `examples` folder, one folder up.
fn find_program() -> Option<PathBuf> {
    let folder = crate::search::executable_directory()?;
    let parent = folder.parent()?;
    let mut places = vec![folder.join(PROGRAM), parent.join("lib/cajeta").join(PROGRAM)];
    if folder.ends_with("deps") || folder.ends_with("examples") {
        places.push(parent.join(PROGRAM));
    }
    places.into_iter().find(|path| path.is_file())
}

/// What a successful probe found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Success {
    /// The backend's devices.
    pub devices: Vec<DeviceSummary>,
    /// The kernel that computed the right result; empty when the backend has none the probe knows, or may run.
    pub kernel: String,
    /// Whether a stored success answered.
    pub cached: bool,
    /// How long the probe took.
    pub took: Duration,
}

/// Probes the library, or answers from a stored success.
///
/// # Errors
/// The stage at which it failed. A crash, a hang or an early exit is a failure of the stage that had
/// begun, with the signal or code and the last line the plugin wrote.
pub fn probe(
    library: &Path,
    manifest: Option<&PluginManifest>,
    options: &ProbeOptions,
) -> Result<Success, Refusal> {
    let rows = options.avoided.zip(manifest);
    let avoided = rows.map_or_else(Vec::new, |(AvoidedRows(rows), manifest)| rows(&manifest.id, library));
    let key = cache::Key::of(library, manifest, &avoided);
    if let Some(stored) = options.cache.as_deref().and_then(|folder| cache::find(folder, &key)) {
        return Ok(stored);
    }
    let hash = crate::trust::check_hash(library, manifest.and_then(|manifest| manifest.sha256.as_deref()))?;
    let found = spawn::run(library, manifest, &avoided, options)?;
    if let Some(folder) = options.cache.as_deref() {
        cache::store(folder, &key, &hash, &found);
    }
    Ok(found)
}

/// A plugin's answer that it cannot work here, with a remedy: its own, else the manifest's.
pub(crate) fn unavailable(stage: Stage, error: &DeviceError, manifest: Option<&PluginManifest>) -> Refusal {
    let remedy = match error.code {
        Code::UNAVAILABLE => manifest
            .and_then(|manifest| {
                manifest.driver_libraries.iter().find(|driver| error.text.contains(&driver.name))
            })
            .map(|driver| driver.remedy.clone())
            .unwrap_or_default(),
        // What it was given is the environment alone, and its words say what is wrong there.
        Code::INVALID if !error.text.is_empty() => String::new(),
        _ => "report this to the plugin's author".to_owned(),
    };
    let reason = if error.text.is_empty() {
        format!("{}: {}", error.operation, error.code.name())
    } else {
        format!("{}: {}", error.code.name(), error.text)
    };
    Refusal::new(stage, reason, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_says_what_to_do_is_not_contradicted() {
        let remedy = |code, text: &str| {
            unavailable(Stage::Probe, &DeviceError::new("probe", &"a".into(), code, text), None).remedy
        };
        assert_eq!(remedy(Code::INVALID, "A_VARIABLE is 7; correct it or unset it"), "");
        for (code, text) in [(Code::INVALID, ""), (Code::INTERNAL, "no lock")] {
            assert_eq!(remedy(code, text), "report this to the plugin's author");
        }
    }
}
