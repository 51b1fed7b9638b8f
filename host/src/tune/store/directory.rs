//! Where the store is: told by the application, else by the environment, else by the settings, else
//! where the platform keeps what can be made again.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cajeta_plugin_host::search;

use crate::settings::Settings;

/// The variable that names the folder; `off` keeps nothing.
pub const VARIABLE: &str = "CAJETA_LLM_TUNE_DIR";
/// What stands for no folder at all.
const OFF: &str = "off";

/// Everything that may say where the store is. Earlier fields win.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sources {
    /// What the application was told.
    pub option: Option<PathBuf>,
    /// The value of [`VARIABLE`].
    pub variable: Option<OsString>,
    /// `tune_dir` of the settings.
    pub settings: Option<PathBuf>,
    /// The platform's folder for this program.
    pub platform: Option<PathBuf>,
}

impl Sources {
    /// The folder; `None` when nothing is to be kept, or there is nowhere to keep it.
    pub fn resolve(&self) -> Option<PathBuf> {
        let variable = self.variable.clone().filter(|value| !value.is_empty()).map(PathBuf::from);
        let told = self.option.clone().or(variable).or_else(|| self.settings.clone());
        let folder = match told {
            Some(path) if path == Path::new(OFF) || path.as_os_str().is_empty() => return None,
            Some(path) => path,
            None => self.platform.clone()?.join("tune"),
        };
        // The working directory may change; the store does not.
        std::path::absolute(folder).ok()
    }
}

/// The folder of this process's store; `option` is what the application was told.
pub fn tune_directory(option: Option<&Path>) -> Option<PathBuf> {
    let elevated = search::is_elevated();
    let sources = Sources {
        option: option.map(Path::to_path_buf),
        // The environment of a process with more rights than its caller is not its own.
        variable: std::env::var_os(VARIABLE).filter(|_| !elevated),
        // Settings that cannot be read are reported by whoever needs them.
        settings: Settings::of_process().ok().filter(|_| !elevated).and_then(|settings| settings.tune_dir),
        platform: platform_directory(),
    };
    sources.resolve()
}

/// Where this user's measurements go: `cajeta-llm` beside the program's other derived files.
pub fn platform_directory() -> Option<PathBuf> {
    if cfg!(target_os = "macos") && !search::is_elevated() {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute())?;
        return Some(home.join("Library/Caches/cajeta-llm"));
    }
    Some(search::cache_directory()?.parent()?.join("cajeta-llm"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_asked_first_wins_and_off_keeps_nothing() {
        let mut sources = Sources { platform: Some("/cache/cajeta-llm".into()), ..Sources::default() };
        assert_eq!(sources.resolve(), Some("/cache/cajeta-llm/tune".into()));
        sources.settings = Some("/set".into());
        assert_eq!(sources.resolve(), Some("/set".into()));
        sources.variable = Some("".into());
        assert_eq!(sources.resolve(), Some("/set".into()), "an empty variable says nothing");
        sources.variable = Some("/var".into());
        assert_eq!(sources.resolve(), Some("/var".into()));
        sources.variable = Some("off".into());
        assert_eq!(sources.resolve(), None);
        sources.option = Some("/told".into());
        assert_eq!(sources.resolve(), Some("/told".into()));
        assert_eq!(Sources::default().resolve(), None, "a process without a home keeps nothing");
    }
}
