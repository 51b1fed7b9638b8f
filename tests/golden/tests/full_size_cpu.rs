//! The shapes of an 8B on the CPU backend. One backend serves per process, so each has a file.

#[test]
fn layers_of_an_8b() {
    cajeta_golden::full_size::hold_wide_layers("cpu");
}

#[test]
fn a_context_of_32k() {
    cajeta_golden::full_size::hold_long_context("cpu");
}
