//! A model file cut short while the program runs from it: one sentence, exit status 1.

use std::io::Read;
use std::process::Stdio;

use crate::program::{Run, model, with_plugins};

#[test]
fn a_file_cut_while_it_is_used_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut-later.gguf");
    std::fs::copy(model(), &path).expect("copied");
    let name = path.display().to_string();
    let prompt = "Once upon a time, there was";
    let mut command =
        with_plugins(&["run", &name, "-p", prompt, "--raw", "--temp", "2", "--seed", "4", "-n", "2000"]);
    // One thread: the answer must not be over before the file is cut.
    command.env("CAJETA_CPU_THREADS", "1");
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let mut first = [0; 1];
    child.stdout.as_mut().expect("piped").read_exact(&mut first).expect("an answer begins");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opened");
    file.set_len(4096).expect("cut");
    let run = Run::of(child.wait_with_output().expect("the program ends"));
    run.failure(1, &[&name, "was cut short while it was in use"]);
}
