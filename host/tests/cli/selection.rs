//! Which backend runs: what is asked for, or a sentence with everything an operator needs.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::program::{bare, finish, model, plugins, with_plugins};

/// A folder with the processor's plugin and no other.
fn only_cpu() -> TempDir {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    for file in ["libcajeta_backend_cpu.so", "cajeta-backend-cpu.toml"] {
        std::fs::copy(plugins().join(file), folder.path().join(file)).expect("copied");
    }
    folder
}

/// The program with the plugins of a folder, and a choice among them.
fn choosing(args: &[&str], folder: &Path, choice: &str) -> Command {
    let mut command = bare(args);
    command.env("CAJETA_PLUGIN_PATH", folder).env("CAJETA_XPU_BACKEND", choice);
    command
}

#[test]
fn a_backend_that_is_not_installed_is_never_replaced() {
    let model = model();
    let folder = only_cpu();
    let path = folder.path().display().to_string();
    let run = ["run", &model, "-p", "x", "-n", "1"];
    finish(choosing(&run, folder.path(), "cuda")).failure(
        1,
        &[
            "no cuda plugin is installed",
            &path,
            "install the package cajeta-backend-cuda",
            "CAJETA_XPU_BACKEND",
        ],
    );
    let forced = [&run[..], &["--backend", "cuda"]].concat();
    finish(choosing(&forced, folder.path(), "cpu")).failure(1, &["no cuda plugin is installed", &path]);
}

#[test]
fn one_of_several_is_enough_and_the_option_wins() {
    let model = model();
    let folder = only_cpu();
    let run = ["run", &model, "-p", "x", "-n", "1", "--json"];
    assert_eq!(finish(choosing(&run, folder.path(), "cuda,cpu")).json()["backend"], "cpu");
    assert_eq!(finish(choosing(&run, folder.path(), "")).json()["backend"], "cpu");
    let forced = [&run[..], &["--backend", "cpu"]].concat();
    assert_eq!(finish(choosing(&forced, folder.path(), "cuda")).json()["backend"], "cpu");
}

#[test]
fn no_plugin_at_all_is_one_sentence() {
    finish(bare(&["run", &model(), "-p", "x"]))
        .failure(1, &["no-plugins", "does not exist", "cajeta-backend-cpu"]);
}

#[test]
fn names_and_positions_that_cannot_be_are_refused() {
    let model = model();
    finish(with_plugins(&["run", &model, "-p", "x", "--backend", "../x"])).failure(1, &["../x"]);
    finish(with_plugins(&["run", &model, "-p", "x", "--device", "7"])).failure(1, &["device 7"]);
}

#[test]
fn a_variable_that_means_nothing_is_told_and_not_ignored() {
    let model = model();
    for (name, value, expected) in [
        ("CAJETA_CPU_THREADS", "many", "from 1 to 1024"),
        ("CAJETA_CPU_THREADS", "0", "from 1 to 1024"),
        ("CAJETA_CPU_SIMD", "sse9", "portable"),
    ] {
        let mut command = with_plugins(&["run", &model, "-p", "x", "-n", "1"]);
        command.env(name, value);
        let parts =
            [name, value, expected, "put right what keeps one of them out, or unset CAJETA_XPU_BACKEND"];
        finish(command).failure(1, &parts);
    }
    let mut command = with_plugins(&["run", &model, "-p", "x", "-n", "1"]);
    command.env("CAJETA_CPU_THREADS", " 2 ").env("CAJETA_CPU_SIMD", "");
    finish(command).success();
}
