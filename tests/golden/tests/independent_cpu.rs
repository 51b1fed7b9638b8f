//! Models written by an independent script on the CPU backend. One backend serves per process, so each has a file.

use cajeta_golden::independent;

#[test]
fn logits_are_those_of_the_script() {
    independent::hold("cpu");
}

#[test]
fn changes_are_noticed() {
    independent::notice("cpu");
}
