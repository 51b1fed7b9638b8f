//! The store of measured choices: one small file an answer, in a folder a device.
//!
//! [`directory`] says where, [`device_key`] for which device, [`build`] for which code. [`entry`] is a
//! file's content and [`file_name`] its name; [`autotune`] remembers and recalls, [`inventory`] lists
//! and clears. Nothing here can stop a run: a store that cannot be read or written costs one sentence
//! and the measurements of this run.

mod directory;
mod device_key;
mod build;
mod file_name;
mod entry;
mod autotune;
mod inventory;

pub use autotune::Autotune;
pub use build::{BuildId, BuildParts};
pub use device_key::DeviceKey;
pub use directory::{Sources, VARIABLE, platform_directory, tune_directory};
pub use entry::{Answer, Entry};
pub use inventory::{Listed, clear, list};

pub(crate) use autotune::write_whole;
pub(crate) use file_name::file_name;
