//! Where the store is: told by the application, else by the environment, else by the settings, else
//! where the platform keeps what can be made again.
//!
//! `off`, in any case and with spaces around it, stands for no store; a folder of that name is `./off`. All
//! other names are taken as they are: `~` is no home folder here.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cajeta_plugin_host::search;

use crate::record::{Record, TuneStore};
use crate::settings::Settings;

/// The variable that names the folder; `off` measures and keeps nothing.
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

/// Where choices are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// In this folder.
    Folder(PathBuf),
    /// Nothing is measured: somebody said so.
    Off,
    /// In memory alone: nobody named a folder, and this user has none for it.
    Nowhere,
}

impl Place {
    /// The folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            Place::Folder(folder) => Some(folder),
            Place::Off | Place::Nowhere => None,
        }
    }

    /// Says that what a load measures is gone with it, where that is so and nobody asked for it.
    pub fn warn_if_nowhere(&self) {
        if *self == Place::Nowhere {
            let event = format!(
                "no home folder to keep them in; they are used in this run alone; name a folder in {VARIABLE}, or \
                 `off` there to measure nothing"
            );
            Record::from(TuneStore { folder: "measured choices".into(), event }).emit();
        }
    }
}

impl Sources {
    /// Where choices are kept.
    pub fn resolve(&self) -> Place {
        let variable = self.variable.clone().filter(|value| !value.is_empty()).map(PathBuf::from);
        let told = self.option.clone().or(variable).or_else(|| self.settings.clone());
        let folder = match (told, &self.platform) {
            (Some(path), _) if is_off(&path) => return Place::Off,
            (Some(path), _) => path,
            (None, Some(platform)) => platform.join("tune"),
            (None, None) => return Place::Nowhere,
        };
        // The working directory may change; the store does not.
        std::path::absolute(folder).map_or(Place::Nowhere, Place::Folder)
    }
}

fn is_off(path: &Path) -> bool {
    let text = path.to_str().map(str::trim);
    text.is_some_and(|text| text.is_empty() || text.eq_ignore_ascii_case(OFF))
}

/// Where this process keeps choices; `option` is what the application was told.
pub fn tune_place(option: Option<&Path>) -> Place {
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

/// The folder of this process's store, if it has one; `option` is what the application was told.
pub fn tune_directory(option: Option<&Path>) -> Option<PathBuf> {
    tune_place(option).folder().map(Path::to_path_buf)
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
    fn whoever_is_asked_first_wins() {
        let folder = |path: &str| Place::Folder(path.into());
        let mut sources = Sources { platform: Some("/cache/cajeta-llm".into()), ..Sources::default() };
        assert_eq!(sources.resolve(), folder("/cache/cajeta-llm/tune"));
        sources.settings = Some("/set".into());
        assert_eq!(sources.resolve(), folder("/set"));
        sources.variable = Some("".into());
        assert_eq!(sources.resolve(), folder("/set"), "an empty variable says nothing");
        sources.variable = Some("/var".into());
        assert_eq!(sources.resolve(), folder("/var"));
        sources.variable = Some("off".into());
        assert_eq!(sources.resolve(), Place::Off);
        sources.option = Some("/told".into());
        assert_eq!(sources.resolve(), folder("/told"));
        assert_eq!(Sources::default().resolve(), Place::Nowhere, "a process without a home keeps nothing");
    }

    #[test]
    fn off_is_off_however_it_is_written() {
        let told = |text: &str| Sources { option: Some(text.into()), ..Sources::default() }.resolve();
        for text in ["off", "OFF", "Off", " off", "off\n", "", " "] {
            assert_eq!(told(text), Place::Off, "{text:?}");
        }
        for text in ["./off", "offline", "~/x", "of"] {
            assert!(told(text).folder().is_some_and(Path::is_absolute), "{text:?}");
        }
        let told = told("~/x");
        assert!(told.folder().is_some_and(|folder| folder.ends_with("~/x")), "{told:?}");
    }
}
