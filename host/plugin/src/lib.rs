//! Finds, checks, probes, opens and selects backend plugins, and puts a safe face on their tables.
//!
//! A plugin goes through the stages in the order of the modules below. [`manifest`] reads the file
//! beside the library, [`search`] says where such files are looked for, [`trust`] who may have
//! written them, [`arch`] whether the library is for this machine. Only then is anything opened, and
//! first in a child process ([`probe`]): a library that crashes, hangs or aborts takes that process
//! with it and no other. [`open`], [`rows`] and [`contradictions`] check what a library says of
//! itself, [`mod@select`] chooses one backend, and [`device`] is how the rest of the host calls it.
//!
//! Everything a plugin returns is treated as data of unknown quality: pointers, counts, text, codes
//! and handles are checked before they are used. A library that passed its checks is still native
//! code of the same process; the trust rules, not these checks, decide whether to run it.
//!
//! Unix only: the trust rules are written in terms of owners and modes.

pub mod printable;
pub mod candidate;
pub mod manifest;
pub mod search;
pub mod trust;
pub mod arch;
pub mod discover;
mod layout_report;
pub mod open;
pub mod rows;
pub mod contradictions;
mod launchable;
pub mod device;
pub mod probe;
pub mod open_path;
pub mod select;

pub use candidate::{Candidate, Outcome, Refusal, Stage};
pub use contradictions::RefusedRow;
pub use device::{
    Backend, Buffer, BufferSpan, Device, DeviceError, DeviceSummary, LaunchSpec, List, Queue, Ticket,
    shutdown,
};
pub use discover::{Discovery, discover};
pub use manifest::PluginManifest;
pub use open_path::open_path;
pub use probe::ProbeOptions;
pub use search::SearchOptions;
pub use select::{
    Explanation, Installed, SelectError, SelectOptions, Selected, activate, active_backend, explain,
    registries, select,
};
