//! Where things are: the workspace root, cargo's target directory, and what xtask keeps there.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Outcome};

/// The folders one run of xtask works in.
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Finds the workspace this binary was built from.
    ///
    /// The target directory is read off our own path (`<target>/<profile>/xtask`), so that it is
    /// right whether it came from `CARGO_TARGET_DIR`, from a cargo config file, or by default.
    pub(crate) fn locate() -> Outcome<Self> {
        let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest_dir
            .parent()
            .map(Path::to_path_buf)
            .ok_or_else(|| Failure::work("xtask has no parent folder; run it as `cargo xtask`"))?;
        let executable = std::env::current_exe()
            .map_err(|error| Failure::work(format!("cannot find the running executable: {error}")))?;
        let target =
            executable.ancestors().nth(2).map(Path::to_path_buf).ok_or_else(|| {
                Failure::work("xtask is not inside a target folder; run it as `cargo xtask`")
            })?;
        Ok(Self { root, target })
    }

    /// The folder of the root `Cargo.toml`.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's target directory.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// Downloaded test models; survives `cargo xtask` runs, goes with `cargo clean`.
    pub(crate) fn models(&self) -> PathBuf {
        self.target.join("models")
    }

    /// Reference data kept beside the repository on the maintainers' machines, where present.
    ///
    /// `CAJETA_SHARED` names it; else the sibling folder `shared` of the workspace is taken.
    pub(crate) fn shared(&self) -> Option<PathBuf> {
        let candidate = match std::env::var_os("CAJETA_SHARED") {
            Some(named) => PathBuf::from(named),
            None => self.root.parent()?.join("shared"),
        };
        candidate.join("reference").is_dir().then_some(candidate)
    }

    /// A child process that starts in the workspace root.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// The cargo that started us, building into the same target directory.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = self.command(cargo);
        command.args(arguments).env("CARGO_TARGET_DIR", &self.target);
        command
    }
}
