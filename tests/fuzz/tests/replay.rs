//! Every target on its corpus, on its seeds, and on a fixed number of mutations of both.

use std::panic::catch_unwind;
use std::path::Path;

use cajeta_fuzz::mutation::{Dice, mutated};
use cajeta_fuzz::{TARGETS, Target};

fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("a target of that name")
}

/// The committed inputs of a target, in the order of their names.
fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let entries = std::fs::read_dir(&folder).expect("each target has a corpus");
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| entry.expect("readable").path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).expect("readable")))
        .collect();
    inputs.sort();
    inputs
}

/// Runs one input; when it breaks a promise, says how to have it again.
fn run(target: &Target, name: &str, input: &[u8]) {
    if catch_unwind(|| (target.run)(input)).is_err() {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-failure", target.name));
        std::fs::write(&path, input).expect("written");
        panic!("target `{}` failed on {name}; the input is in {}", target.name, path.display());
    }
}

/// What `name` names, replayed.
fn replay(name: &str) {
    let target = target(name);
    let seeds = (target.seeds)().into_iter().enumerate();
    let mut inputs = corpus(target);
    inputs.extend(seeds.map(|(number, seed)| (format!("seed {number}"), seed)));
    for (name, input) in &inputs {
        run(target, name, input);
    }
    let mut dice = Dice::new(1);
    for number in 0..target.replays as usize {
        let (name, input) = &inputs[number % inputs.len()];
        let (_, other) = &inputs[number * 7 % inputs.len()];
        let input = mutated(input, other, target.words, &mut dice);
        run(target, &format!("mutation {number}, of {name}"), &input);
    }
}

#[test]
fn gguf_files() {
    replay("gguf");
}

#[test]
fn tokenizers() {
    replay("tokenizer");
}

#[test]
fn chat_templates() {
    replay("template");
}

#[test]
fn manifests() {
    replay("manifest");
}

#[test]
fn kernel_rows() {
    replay("rows");
}
