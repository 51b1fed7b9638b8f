//! `cajeta.toml`: what an operator fixes for all runs on a machine.
//!
//! Read from `$XDG_CONFIG_HOME/cajeta/` (else `~/.config/cajeta/`), and if there is none from
//! `/etc/cajeta/`. Never from the current directory: the file names folders that libraries are
//! loaded from.

use std::fs::{File, OpenOptions};
use std::io::{Error, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cajeta_plugin_host::SelectOptions;
use serde::Deserialize;
use thiserror::Error;

/// The file's name in its folder.
const FILE: &str = "cajeta.toml";
/// A settings file has no business being larger.
const MAX_BYTES: u64 = 1 << 20;

/// The settings, all optional.
#[derive(Clone, Default, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Folders searched for plugins after those of the environment.
    pub plugin_paths: Vec<PathBuf>,
    /// Where measured choices are kept, unless `CAJETA_LLM_TUNE_DIR` says otherwise; `off` keeps none.
    pub tune_dir: Option<PathBuf>,
    /// A file that diagnostic records are appended to, unless `CAJETA_RECORDS` names another.
    pub records: Option<PathBuf>,
}

/// A settings file that cannot be used.
#[derive(Debug, Error)]
#[error("{path}: {reason}; correct it or remove it", path = path.display())]
pub struct SettingsError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
}

impl Settings {
    /// The settings of this process: the first file there is, or the defaults.
    ///
    /// # Errors
    /// When a file is there and cannot be read, is no TOML, or has a key this version does not know.
    pub fn of_process() -> Result<Settings, SettingsError> {
        let mut files = folders().into_iter().map(|folder| folder.join(FILE));
        // A link that leads nowhere is there: somebody meant something by it.
        files
            .find(|file| file.symlink_metadata().is_ok())
            .map_or(Ok(Settings::default()), |file| Settings::read(&file))
    }

    /// Reads one file.
    ///
    /// # Errors
    /// As [`Settings::of_process`].
    pub fn read(path: &Path) -> Result<Settings, SettingsError> {
        let fail = |reason: String| SettingsError { path: path.to_path_buf(), reason };
        let opened = open(path).map_err(|error| fail(error.to_string()))?;
        let mut bytes = Vec::new();
        opened.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| fail(error.to_string()))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(fail(format!("it has more than the {MAX_BYTES} bytes a settings file may have")));
        }
        let text = std::str::from_utf8(&bytes).map_err(|error| fail(error.to_string()))?;
        toml::from_str(text).map_err(|error| fail(error.to_string().trim_end().replace('\n', " ")))
    }
}

/// Opens a regular file, or a link to one. A pipe would make the program wait, and a device may never end.
fn open(path: &Path) -> Result<File, Error> {
    let not_a_file = || Error::other("it is not a file");
    // Before it is opened, which does things to some devices, and after, when it may be another.
    if !std::fs::metadata(path)?.is_file() {
        return Err(not_a_file());
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_a_file()) }
}

/// The folders an operator's files are looked for in: the user's, then the machine's.
pub fn folders() -> Vec<PathBuf> {
    let home = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = home("XDG_CONFIG_HOME").or_else(|| home("HOME").map(|home| home.join(".config")));
    user.into_iter().chain([PathBuf::from("/etc")]).map(|folder| folder.join("cajeta")).collect()
}

/// How this process selects a backend, by its environment and settings.
///
/// # Errors
/// As [`Settings::of_process`].
pub fn select_options() -> Result<SelectOptions, SettingsError> {
    Ok(SelectOptions::of_process(Settings::of_process()?.plugin_paths))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, SettingsError> {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join(FILE);
        std::fs::write(&file, text).expect("written");
        Settings::read(&file)
    }

    #[test]
    fn a_key_nobody_knows_is_an_error_naming_the_file() {
        assert_eq!(read("").expect("empty is fine"), Settings::default());
        let settings = read("plugin_paths = ['/opt/backends']").expect("reads");
        assert_eq!(settings.plugin_paths, [PathBuf::from("/opt/backends")]);
        let settings = read("tune_dir = 'off'\nrecords = '/var/log/cajeta.jsonl'").expect("reads");
        assert_eq!(settings.tune_dir, Some("off".into()));
        assert_eq!(settings.records, Some("/var/log/cajeta.jsonl".into()));
        let error = read("plugin_path = ['/opt']").expect_err("a typing error").to_string();
        assert!(error.contains(FILE) && error.contains("plugin_path"), "{error}");
        assert!(read("plugin_paths = 3").is_err() && read("\u{0}").is_err());
    }

    #[test]
    fn what_is_no_file_or_too_large_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo runs");
        assert!(made.success());
        std::os::unix::fs::symlink("/dev/zero", at("endless")).expect("linked");
        std::os::unix::fs::symlink(at("none"), at("nowhere")).expect("linked");
        for (name, why) in
            [("pipe", "not a file"), ("endless", "not a file"), ("", "not a file"), ("nowhere", "No such")]
        {
            let error = Settings::read(&at(name)).expect_err(name).to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
        let error = read(&" ".repeat(MAX_BYTES as usize + 1)).expect_err("too large").to_string();
        assert!(error.contains("more than"), "{error}");
        std::fs::write(at("file"), "tune_dir = 'off'").expect("written");
        std::os::unix::fs::symlink(at("file"), at("link")).expect("linked");
        assert_eq!(Settings::read(&at("link")).expect("followed").tune_dir, Some("off".into()));
    }
}
