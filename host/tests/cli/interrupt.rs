//! Interrupts: what there is gets printed, and the shell is told.

use std::io::Read;
use std::process::{Child, Command, Stdio};

use crate::program::{finish, model, on_reference, with_plugins};

fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

/// An answer that is far from its end when its first bytes are read.
fn long_answer() -> Child {
    let model = model();
    let prompt = "Once upon a time, there was";
    let mut command = with_plugins(&["run", &model, "-p", prompt, "--raw", "--temp", "2", "--seed", "4"]);
    // One thread: the answer must not be over before the interrupt comes.
    command.env("CAJETA_CPU_THREADS", "1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts")
}

#[test]
fn the_first_stops_the_answer_and_keeps_what_there_is() {
    let mut child = long_answer();
    let mut stdout = child.stdout.take().expect("piped");
    let mut first = [0; 1];
    stdout.read_exact(&mut first).expect("an answer begins");
    interrupt(&child);
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).expect("it ends");
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(rest.last(), Some(&b'\n'));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("decode") && !err.contains("cajeta:"), "{err}");
}

#[test]
fn what_went_wrong_does_not_stand_behind_half_an_answer() {
    let model = model();
    // A warm-up would be what loses the device.
    let args = ["run", &model, "-p", "Once", "--raw", "--temp", "0", "--no-warm-up"];
    let run = finish(on_reference(&args, &[("CAJETA_REFERENCE_LOSE_AFTER", "8")]));
    assert!(run.out.starts_with(" upon a time,") && run.out.ends_with('\n'), "{run:?}");
    run.failure(1, &["device lost", "reference"]);
}
