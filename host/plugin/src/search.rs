//! Where plugins are looked for, in order.
//!
//! 1. `CAJETA_PLUGIN_PATH`: where it is set, these folders and no others but those of 2.
//! 2. `CAJETA_PLUGIN_ADD_PATH`: before the standard folders, so that an author's build comes first.
//! 3. `plugin_paths` of `cajeta.toml`.
//! 4. The executable's folder, then `../lib/cajeta/plugins` from it.
//! 5. The system folder.
//!
//! Never the current directory, `PATH` or `LD_LIBRARY_PATH`. Entries of the variables are absolute:
//! a relative one would mean the current directory, and is refused aloud. An empty variable is an
//! unset one. A process that runs with another user's rights ignores both variables.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The variable that replaces the standard folders.
pub const PLUGIN_PATH: &str = "CAJETA_PLUGIN_PATH";
/// The variable that adds folders.
pub const PLUGIN_ADD_PATH: &str = "CAJETA_PLUGIN_ADD_PATH";
/// The folder a system's packages install into.
pub const SYSTEM_DIRECTORY: &str = "/usr/lib/cajeta/plugins";

/// Which rule of the search names a folder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// `CAJETA_PLUGIN_PATH`.
    PathVariable,
    /// `CAJETA_PLUGIN_ADD_PATH`.
    AddPathVariable,
    /// `plugin_paths` of `cajeta.toml`.
    Configuration,
    /// The folder of the executable.
    BesideExecutable,
    /// `../lib/cajeta/plugins` from the executable.
    Installation,
    /// The system folder.
    System,
}

impl Source {
    /// The rule for people.
    pub const fn name(self) -> &'static str {
        match self {
            Source::PathVariable => PLUGIN_PATH,
            Source::AddPathVariable => PLUGIN_ADD_PATH,
            Source::Configuration => "plugin_paths in cajeta.toml",
            Source::BesideExecutable => "beside the executable",
            Source::Installation => "installation folder",
            Source::System => "system folder",
        }
    }
}

/// What the search depends on. Tests fill it in; programs take [`SearchOptions::of_process`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SearchOptions {
    /// Value of `CAJETA_PLUGIN_PATH`.
    pub plugin_path: Option<OsString>,
    /// Value of `CAJETA_PLUGIN_ADD_PATH`.
    pub plugin_add_path: Option<OsString>,
    /// `plugin_paths` of `cajeta.toml`.
    pub configured: Vec<PathBuf>,
    /// Folder of the executable.
    pub executable_directory: Option<PathBuf>,
    /// The system folder.
    pub system_directory: Option<PathBuf>,
    /// Whether the process runs with another user's rights (set-uid, set-gid, file capabilities).
    pub elevated: bool,
}

impl SearchOptions {
    /// The options of this process: its environment, its executable, the system folder.
    pub fn of_process(configured: Vec<PathBuf>) -> SearchOptions {
        SearchOptions {
            plugin_path: std::env::var_os(PLUGIN_PATH),
            plugin_add_path: std::env::var_os(PLUGIN_ADD_PATH),
            configured,
            executable_directory: executable_directory(),
            system_directory: Some(PathBuf::from(SYSTEM_DIRECTORY)),
            elevated: is_elevated(),
        }
    }

    /// Only these folders, which must be absolute: what tests and programs that ship their own
    /// plugins use.
    pub fn only(folders: &[&Path]) -> SearchOptions {
        SearchOptions {
            configured: folders.iter().map(|folder| folder.to_path_buf()).collect(),
            ..SearchOptions::default()
        }
    }

    /// The folders in order, each once; a refused entry carries its reason.
    pub(crate) fn folders(&self) -> Vec<(Source, PathBuf, Result<(), String>)> {
        let mut folders = Vec::new();
        let mut add = |source: Source, path: PathBuf| {
            if folders.iter().any(|(_, known, _)| *known == path) {
                return;
            }
            let usable = if path.is_absolute() {
                Ok(())
            } else {
                Err(format!("{} is relative; {} takes absolute folders", path.display(), source.name()))
            };
            folders.push((source, path, usable));
        };
        let replaced = variable(&self.plugin_path, self.elevated);
        let added = variable(&self.plugin_add_path, self.elevated);
        for path in
            replaced.into_iter().flat_map(std::env::split_paths).filter(|path| !path.as_os_str().is_empty())
        {
            add(Source::PathVariable, path);
        }
        for path in
            added.into_iter().flat_map(std::env::split_paths).filter(|path| !path.as_os_str().is_empty())
        {
            add(Source::AddPathVariable, path);
        }
        if replaced.is_some() {
            return folders;
        }
        for path in &self.configured {
            add(Source::Configuration, path.clone());
        }
        if let Some(directory) = &self.executable_directory {
            add(Source::BesideExecutable, directory.clone());
            if let Some(parent) = directory.parent() {
                add(Source::Installation, parent.join("lib/cajeta/plugins"));
            }
        }
        if let Some(directory) = &self.system_directory {
            add(Source::System, directory.clone());
        }
        folders
    }
}

fn variable(value: &Option<OsString>, elevated: bool) -> Option<&OsStr> {
    value.as_deref().filter(|value| !elevated && !value.is_empty())
}

/// The folder of this process's executable, links followed.
pub fn executable_directory() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?.canonicalize().ok()?;
    executable.parent().map(Path::to_path_buf)
}

/// Whether this process runs with more rights than whoever started it.
pub fn is_elevated() -> bool {
    // SAFETY: these calls take no pointers and cannot fail.
    let ids_differ = unsafe { libc::getuid() != libc::geteuid() || libc::getgid() != libc::getegid() };
    #[cfg(target_os = "linux")]
    // SAFETY: as above; an unknown key answers zero.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) != 0 };
    #[cfg(not(target_os = "linux"))]
    let secure = false;
    ids_differ || secure
}

/// Where this user's derived files go: `$XDG_CACHE_HOME/cajeta`, else `~/.cache/cajeta`. None for an
/// elevated process, whose environment is not its own.
pub fn cache_directory() -> Option<PathBuf> {
    if is_elevated() {
        return None;
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(base.join("cajeta"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> SearchOptions {
        SearchOptions {
            configured: vec!["/etc/plugins".into()],
            executable_directory: Some("/opt/cajeta/bin".into()),
            system_directory: Some("/usr/lib/cajeta/plugins".into()),
            ..SearchOptions::default()
        }
    }

    fn paths(options: &SearchOptions) -> Vec<String> {
        options.folders().into_iter().map(|(_, path, _)| path.display().to_string()).collect()
    }

    #[test]
    fn the_standard_folders_come_in_order() {
        let expected =
            ["/etc/plugins", "/opt/cajeta/bin", "/opt/cajeta/lib/cajeta/plugins", "/usr/lib/cajeta/plugins"];
        assert_eq!(paths(&options()), expected);
    }

    #[test]
    fn one_variable_replaces_and_the_other_adds() {
        let mut options = options();
        options.plugin_add_path = Some("/a:/etc/plugins".into());
        assert_eq!(paths(&options)[..3], ["/a", "/etc/plugins", "/opt/cajeta/bin"]);
        options.plugin_path = Some("/only::/other".into());
        assert_eq!(paths(&options), ["/only", "/other", "/a", "/etc/plugins"]);
        options.plugin_path = Some(OsString::new());
        assert_eq!(paths(&options)[..2], ["/a", "/etc/plugins"]);
    }

    #[test]
    fn relative_entries_are_refused_by_name() {
        let mut options = options();
        options.plugin_path = Some("build:/fine".into());
        let folders = options.folders();
        assert!(folders[0].2.as_ref().unwrap_err().contains("build is relative; CAJETA_PLUGIN_PATH"));
        assert!(folders[1].2.is_ok());
    }

    #[test]
    fn an_elevated_process_ignores_the_variables() {
        let mut options = options();
        options.plugin_path = Some("/evil".into());
        options.plugin_add_path = Some("/evil".into());
        options.elevated = true;
        assert!(!paths(&options).contains(&"/evil".to_owned()));
    }
}
