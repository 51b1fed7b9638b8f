//! The driver: libcuda opened at run time, and each of its objects as a type that releases itself.
//!
//! The only foreign calls of this plugin are below this folder. A call that fails answers with what it was doing.

mod error;
mod library;
mod context;
mod memory;
mod stream;
mod module;
mod graph;

pub(crate) use context::{Context, device_attribute, device_memory, device_name, device_uuid};
pub(crate) use graph::{Graph, Node};
pub(crate) use library::Driver;
pub(crate) use memory::{DeviceMemory, PinnedMemory};
pub(crate) use module::{Function, Module};
pub(crate) use stream::{Event, Stream};
