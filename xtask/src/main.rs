//! The project's own commands: demo, test, ci, tidy.
fn main() {}
