//! A safe face on the tables of an open plugin: facts, buffers, queues, launch lists.
//!
//! Lifetimes follow ownership. Every object keeps the one it came from alive: a queue, a list or a
//! buffer its device, a device its backend, a list the buffers it names. Dropping in any order is
//! therefore right: the device closes after the last of them.

mod error;
mod summary;
mod backend;
mod open;
mod memory;
mod list;
mod queue;

pub use backend::{Backend, shutdown};
pub use error::DeviceError;
pub use list::{LaunchSpec, List};
pub use memory::{Buffer, BufferSpan, PageOwner};
pub use open::Device;
pub use queue::{Queue, Ticket};
pub use summary::DeviceSummary;

// What moves between threads and what is shared by them is part of the face.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    const fn movable<T: Send>() {}
    shared::<Backend>();
    shared::<Device>();
    shared::<Buffer>();
    shared::<List>();
    movable::<Queue>();
};
