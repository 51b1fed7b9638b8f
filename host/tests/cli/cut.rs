//! A model file cut short while the program runs from it: one sentence, exit status 1. Any other SIGBUS ends the
//! program as ever.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::program::{Run, model, with_plugins};

/// An answer from the model at `path` that is far from its end when its first bytes are read.
fn long_answer(path: &str, threads: &str) -> Child {
    let prompt = "Once upon a time, there was";
    let mut command =
        with_plugins(&["run", path, "-p", prompt, "--raw", "--temp", "2", "--seed", "4", "-n", "2000"]);
    command.env("CAJETA_CPU_THREADS", threads);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut first = [0; 1];
    child.stdout.as_mut().expect("piped").read_exact(&mut first).expect("an answer begins");
    child
}

fn cut(path: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("opened");
    file.set_len(4096).expect("cut");
}

#[test]
fn a_file_cut_while_it_is_used_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    // Whichever thread meets the gap first says so.
    for threads in ["1", "2"] {
        let path = folder.path().join("cut-later.gguf");
        std::fs::copy(model(), &path).expect("copied");
        let name = path.display().to_string();
        let child = long_answer(&name, threads);
        cut(&path);
        let run = Run::of(child.wait_with_output().expect("the program ends"));
        run.failure(1, &[&name, "was cut short while it was in use"]);
    }
}

#[test]
fn another_bus_error_is_not_swallowed() {
    let mut child = long_answer(&model(), "1");
    // The runtime's own handler lets the first one that somebody sent pass, and no further one.
    let mut status = None;
    for _ in 0..50 {
        let sent = Command::new("kill").args(["-BUS", &child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        std::thread::sleep(Duration::from_millis(5));
        status = child.try_wait().expect("asked");
        if status.is_some() {
            break;
        }
    }
    // The number of SIGBUS differs between systems; that a signal ended it is what matters.
    assert!(status.is_some_and(|status| status.signal().is_some()), "{status:?}");
}
