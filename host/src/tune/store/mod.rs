//! The store of measured choices: one small file an answer, in a folder a device.
//!
//! [`directory`] says where, [`device_key`] for which device, [`build`] for which code. [`entry`] is a
//! file's content, [`file_name`] its name and [`whole`] how it is written and read; [`belief`] says whose
//! answers count. [`autotune`] remembers and recalls, [`inventory`] lists and clears. Nothing here can stop
//! a run: a store that cannot be read or written costs one sentence and the measurements of this run.

mod directory;
mod device_key;
mod build;
mod file_name;
mod entry;
mod whole;
mod belief;
mod autotune;
mod inventory;

pub use autotune::Autotune;
pub use build::{BuildId, BuildParts};
pub use device_key::DeviceKey;
pub use directory::{Place, Sources, VARIABLE, platform_directory, tune_directory, tune_place};
pub use entry::{Answer, Entry};
pub use inventory::{Cleared, Inventory, Listed, clear, inventory, list};

pub(crate) use file_name::file_name;
pub(crate) use whole::write_whole;
