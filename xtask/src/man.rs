//! `cargo xtask man`: manual pages, written by the program they are about.

use crate::failure::Outcome;
use crate::process;
use crate::workspace::Workspace;

/// Builds the program and has it write its pages to `target/man`.
pub(crate) fn run(workspace: &Workspace) -> Outcome<()> {
    let pages = workspace.target().join("man");
    let mut command =
        workspace.cargo(&["run", "--quiet", "--package", "cajeta", "--bin", "cajeta", "--", "man"]);
    command.arg(pages);
    process::run(command)
}
