//! Too little memory, by the device's own account or by the system's refusal: one sentence with what was
//! wanted, what there is, and what to lower.

use std::process::Command;

use crate::program::{Run, bare, finish, plugins, with_plugins};

/// A tiny model that claims a context of a thousand million positions.
fn long_model(folder: &std::path::Path) -> String {
    let path = folder.join("long.gguf").display().to_string();
    let synth = ["synth", &path, "--shape", "tiny", "--quant", "q8_0", "--ctx", "1073741824"];
    finish(bare(&synth)).success();
    path
}

/// The program with the plugins of the build, on one of them.
fn on(backend: &str, args: &[&str]) -> Command {
    let mut command = with_plugins(args);
    command.env("CAJETA_XPU_BACKEND", backend);
    command
}

/// The backends that were built.
fn backends() -> Vec<&'static str> {
    let built = |name: &&str| plugins().join(format!("cajeta-backend-{name}.toml")).exists();
    ["cpu", "reference"].into_iter().filter(built).collect()
}

#[test]
fn a_context_that_cannot_fit_is_refused_with_the_sum() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = long_model(folder.path());
    for backend in backends() {
        let run = finish(on(backend, &["run", &path, "-p", "x", "--raw", "-n", "1", "--ctx", "1073741824"]));
        run.failure(
            1,
            &["the model needs 1.0 TiB", "K/V cache at context 1073741824", "free", "lower --ctx"],
        );
    }
}

/// A run of `args` whose address space is limited.
fn within(kib: u64, backend: &str, args: &[&str]) -> Run {
    let command = on(backend, args);
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit -v {kib}; exec \"$@\"")).arg("sh");
    limited.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    finish(limited)
}

#[test]
fn what_the_system_refuses_is_said_with_the_sum() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = long_model(folder.path());
    for backend in backends() {
        // A gibibyte of cache, which the device thinks it has.
        let run =
            within(700_000, backend, &["run", &path, "-p", "x", "--raw", "-n", "1", "--ctx", "1000000"]);
        run.failure(1, &["the model needs", "out of memory", "lower --ctx", "allow the process more memory"]);
    }
}

/// From too little to map the file to enough for everything, in steps: wherever memory ends, it ends in a
/// sentence or the work is done.
#[test]
fn memory_may_end_anywhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = long_model(folder.path());
    let (mut refused, mut done) = (0, 0);
    for kib in (24_000..120_000).step_by(2_000).chain([400_000]) {
        let run = within(kib, "cpu", &["run", &path, "-p", "x", "--raw", "-n", "2", "--ctx", "6000"]);
        match run.code {
            Some(0) => done += 1,
            // Too little to start the program at all is the loader's business.
            Some(127) => {}
            // A plugin has an allocator of its own, and the last words of that are its runtime's.
            None if run.err.contains("memory allocation of") => {}
            // Both run out at once, each on a thread of its own, and the program is the quicker one.
            Some(1) if run.err.starts_with("memory allocation of ") => {
                assert!(run.err.contains("out of memory: the system refused"), "{run:?}");
                refused += 1;
            }
            _ => {
                run.failure(1, &[]);
                refused += 1;
            }
        }
    }
    assert!(refused > 0 && done > 0, "{refused} {done}");
}
