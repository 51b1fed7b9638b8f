//! Which crates of the workspace can be built here: all, but for backends that embed device code
//! when no compiler has made it.

use std::fs;
use std::process::Command;

use crate::kernels;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Backends that embed device code: package, folder, and the table `cargo xtask kernels` leaves below the
/// target folder.
const EMBEDDING: [(&str, &str, &str); 1] =
    [("cajeta-backend-cuda", "plugins/cuda", "kernels/cuda/kernels.tsv")];

/// The crates that commands over the whole workspace take.
pub(crate) struct Scope {
    excluded: Vec<&'static str>,
}

impl Scope {
    /// Leaves out what cannot be built, saying so in `tally`.
    pub(crate) fn of_machine(workspace: &Workspace, tally: &mut Tally) -> Self {
        let manifest = fs::read_to_string(workspace.root().join("Cargo.toml")).unwrap_or_default();
        let mut excluded = Vec::new();
        for (package, folder, table) in EMBEDDING {
            let is_member = manifest.contains(&format!("\"{folder}\""));
            let table = workspace.target().join(table);
            if !is_member || kernels::is_current(workspace, &table) {
                continue;
            }
            let why = if table.is_file() {
                "its device code is of older sources; `cargo xtask kernels` compiles it"
            } else {
                "its device code is not compiled; `cargo xtask kernels --setup` does it"
            };
            tally.skip(package, why);
            excluded.push(package);
        }
        Self { excluded }
    }

    /// Adds `--workspace` and what it leaves out.
    pub(crate) fn apply(&self, command: &mut Command) {
        command.arg("--workspace");
        for package in &self.excluded {
            command.args(["--exclude", package]);
        }
    }
}
