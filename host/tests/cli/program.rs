//! Runs the program under test, cut off from the settings and variables of whoever runs the tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program.
pub(crate) const CAJETA: &str = env!("CARGO_BIN_EXE_cajeta");

/// What a run of the program came to.
#[derive(Debug)]
pub(crate) struct Run {
    /// Exit status; nothing when a signal ended it.
    pub(crate) code: Option<i32>,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// The tiny model that belongs to the repository.
pub(crate) fn model() -> String {
    root().join("tests/data/tales-5m.Q4_K_M.gguf").display().to_string()
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder that the build leaves plugins in.
pub(crate) fn plugins() -> PathBuf {
    let folder = Path::new(CAJETA).parent().expect("a folder").to_path_buf();
    for file in ["libcajeta_backend_cpu.so", "cajeta-backend-cpu.toml", "cajeta-probe"] {
        assert!(
            folder.join(file).exists(),
            "{} has no {file}: run `cargo xtask test`, or `cargo build -p cajeta-backend-cpu -p cajeta-plugin-host` first",
            folder.display()
        );
    }
    folder
}

/// The program with these arguments and no plugins.
pub(crate) fn bare(args: &[&str]) -> Command {
    let mut command = Command::new(CAJETA);
    let nowhere = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("CAJETA_") {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(Stdio::null());
    command.env("CAJETA_PLUGIN_PATH", nowhere.join("no-plugins"));
    command.env("XDG_CONFIG_HOME", nowhere.join("config")).env("XDG_CACHE_HOME", nowhere.join("cache"));
    command.env("XDG_STATE_HOME", nowhere.join("state"));
    // Which kernels serve does not hang on the clock; tests of measuring name a folder.
    command.env("CAJETA_LLM_TUNE_DIR", "off");
    command
}

/// The program with these arguments and the plugins of the build, of which the processor's serves:
/// what else was built, and what else the machine has, changes nothing.
pub(crate) fn with_plugins(args: &[&str]) -> Command {
    let mut command = bare(args);
    command.env("CAJETA_PLUGIN_PATH", plugins()).env("CAJETA_XPU_BACKEND", "cpu");
    command
}

/// The program on the reference backend's device, which can be told to misbehave.
pub(crate) fn on_reference(args: &[&str], variables: &[(&str, &str)]) -> Command {
    let library = plugins().join("libcajeta_backend_reference.so");
    assert!(library.exists(), "no {}: run `cargo build -p cajeta-backend-reference`", library.display());
    let mut command = with_plugins(args);
    command.env("CAJETA_XPU_BACKEND", "reference").envs(variables.iter().copied());
    command
}

/// Runs to the end.
pub(crate) fn finish(mut command: Command) -> Run {
    Run::of(command.output().expect("the program starts"))
}

/// Runs to the end with something on standard input.
pub(crate) fn feed(mut command: Command, input: &[u8]) -> Run {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    // From a thread: the program may write before it has read all. It may also not read all.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let run = Run::of(child.wait_with_output().expect("the program ends"));
    feeder.join().expect("fed");
    run
}

impl Run {
    /// What an ended process left.
    pub(crate) fn of(output: Output) -> Run {
        Run {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).expect("standard output is text"),
            err: String::from_utf8(output.stderr).expect("standard error is text"),
        }
    }

    /// Its standard output after success.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// Its answer in JSON after success.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.success()).expect("one value of JSON")
    }

    /// The one sentence it failed with, holding each of `parts`.
    #[track_caller]
    pub(crate) fn failure(self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        let sentence = self.err.strip_suffix('\n').unwrap_or(&self.err);
        assert!(sentence.starts_with("cajeta: ") && !sentence.contains('\n'), "{self:?}");
        for part in parts {
            assert!(sentence.contains(part), "{part:?} is not in {sentence:?}");
        }
    }
}

/// The ids of a JSON list.
#[track_caller]
pub(crate) fn ids(value: &Value) -> Vec<u64> {
    value.as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id")).collect()
}

/// The keys of a JSON object, in order.
#[track_caller]
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}
