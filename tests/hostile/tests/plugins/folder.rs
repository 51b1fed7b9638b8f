//! Temporary plugin folders: copies of the misbehaving plugin under telling names, and manifests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cajeta_plugin_host::{
    Candidate, Explanation, Outcome, ProbeOptions, Refusal, SearchOptions, SelectError, SelectOptions,
    Selected, Stage, explain, select,
};
use tempfile::TempDir;

/// A folder of plugins that goes with the test.
pub(crate) struct Folder {
    _held: TempDir,
    pub(crate) path: PathBuf,
}

/// The lines of a manifest, each replaceable.
#[derive(Clone)]
pub(crate) struct Lines(Vec<(&'static str, String)>);

impl Lines {
    pub(crate) fn of(id: &str, library: &str) -> Lines {
        let quoted = |text: &str| format!("{text:?}");
        Lines(vec![
            ("schema", "1".into()),
            ("id", quoted(id)),
            ("version", quoted("1.0.0")),
            ("license", quoted("MIT")),
            ("library", quoted(library)),
            ("arch", quoted(std::env::consts::ARCH)),
            ("os", quoted(std::env::consts::OS)),
            ("tables", "[\"backend/1\", \"device/1\"]".into()),
            ("build_tree", "true".into()),
        ])
    }

    /// The manifest with one line replaced or added.
    pub(crate) fn with(mut self, key: &'static str, value: &str) -> Lines {
        self.0.retain(|(known, _)| *known != key);
        self.0.push((key, value.to_owned()));
        self
    }

    fn text(&self) -> String {
        self.0.iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
    }
}

impl Folder {
    pub(crate) fn new() -> Folder {
        let held = tempfile::tempdir().expect("a temporary folder");
        let path = held.path().canonicalize().expect("it exists");
        permit(&path, 0o755);
        Folder { _held: held, path }
    }

    /// A plugin of one behaviour and id, with an honest manifest.
    pub(crate) fn plugin(&self, behaviour: &str, id: &str) -> PathBuf {
        let library = self.library(behaviour, id);
        self.manifest(id, &Lines::of(id, &library))
    }

    /// The library alone; answers its file name.
    pub(crate) fn library(&self, behaviour: &str, id: &str) -> String {
        let name = format!("lib{behaviour}__{id}.so");
        fs::copy(hostile_plugin(), self.path.join(&name)).expect("the plugin copies");
        permit(&self.path.join(&name), 0o755);
        name
    }

    /// A library made of C source.
    pub(crate) fn compiled(&self, name: &str, source: &str, flags: &[&str]) -> String {
        let file = format!("lib{name}.so");
        let text = self.path.join(format!("{name}.c"));
        fs::write(&text, source).expect("written");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(self.path.join(&file)).arg(&text).args(flags);
        let status = compiler.status().expect("the C compiler that Rust links with runs");
        assert!(status.success(), "cc made {file}");
        file
    }

    pub(crate) fn manifest(&self, id: &str, lines: &Lines) -> PathBuf {
        self.file(&format!("cajeta-backend-{id}.toml"), lines.text().as_bytes())
    }

    pub(crate) fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, content).expect("written");
        permit(&path, 0o644);
        path
    }
}

pub(crate) fn permit(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode is set");
}

fn hostile_plugin() -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_hostile-probe")).parent().expect("a folder");
    let path = programs.join("examples/libhostile_plugin.so");
    assert!(path.is_file(), "{} is missing; `cargo test -p cajeta-hostile` builds it", path.display());
    path
}

pub(crate) fn probe_options() -> ProbeOptions {
    let mut options = ProbeOptions::with_program(env!("CARGO_BIN_EXE_hostile-probe"));
    options.time_limit = Duration::from_secs(60);
    options
}

/// Options that search these folders only.
pub(crate) fn options(folders: &[&Folder], variable: Option<&str>) -> SelectOptions {
    let paths: Vec<&Path> = folders.iter().map(|folder| folder.path.as_path()).collect();
    SelectOptions {
        search: SearchOptions::only(&paths),
        probe: probe_options(),
        force: None,
        variable: variable.map(Into::into),
        device: None,
    }
}

pub(crate) fn selected(folders: &[&Folder], variable: Option<&str>) -> Result<Selected, SelectError> {
    select(&options(folders, variable))
}

pub(crate) fn explained(folder: &Folder) -> Explanation {
    explain(&options(&[folder], None)).expect("no restriction to misread")
}

/// The only candidate of a folder, fully probed.
pub(crate) fn only_candidate(folder: &Folder) -> Candidate {
    let mut candidates = explained(folder).candidates;
    assert_eq!(candidates.len(), 1, "{candidates:?}");
    candidates.remove(0)
}

/// The refusal of the only candidate of a folder.
pub(crate) fn refusal(folder: &Folder) -> Refusal {
    match only_candidate(folder).outcome {
        Outcome::Refused(refusal) => refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Asserts the stage, and that the reason says every one of `words`, on one line.
#[track_caller]
pub(crate) fn assert_refused(refusal: &Refusal, stage: Stage, words: &[&str]) {
    assert_eq!(refusal.stage, stage, "{refusal}");
    for word in words {
        assert!(refusal.reason.contains(word), "`{word}` is not in: {refusal}");
    }
    assert!(!refusal.to_string().chars().any(char::is_control), "{refusal:?}");
}

/// Asserts what a plugin of one behaviour is refused for.
#[track_caller]
pub(crate) fn assert_behaviour(behaviour: &str, stage: Stage, words: &[&str]) {
    let folder = Folder::new();
    folder.plugin(behaviour, "zebra");
    assert_refused(&refusal(&folder), stage, words);
}
