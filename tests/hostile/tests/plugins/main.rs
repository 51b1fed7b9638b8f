//! Plugins that misbehave: each is refused at the right stage with its reason, or survived.
//!
//! They go through the real discovery, the real child process and the real opening; only the folders
//! are temporary.

mod folder;
mod untouched;
mod opened;
mod probed;
mod chosen;
mod registries;
mod called;
mod checked;
