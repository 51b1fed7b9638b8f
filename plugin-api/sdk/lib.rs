//! Everything a backend author needs: the ABI types, the op catalog, and the
//! traits and macro that turn a Rust type into a plugin.
//!
//! Implement [`Backend`] and [`Device`], then write
//! `cajeta_plugin_api::export_backend!(MyBackend);`. The macro makes the one
//! exported symbol. Behind it this crate keeps the handle tables, checks every
//! call against the contract of [`abi::DeviceV1`], and stops panics at the
//! boundary, so that a backend sees only live objects and in-range spans.

pub use cajeta_abi as abi;
pub use cajeta_catalog as catalog;

mod fault;
mod backend;
mod device;
mod handles;
mod guard;
mod instance;
mod launch_check;
mod glue_backend;
mod glue_device;
mod export;

pub use backend::Backend;
pub use device::{BufferSpan, Device, Poll, Work};
pub use fault::{Answer, Fault};

#[doc(hidden)]
pub mod __export {
    //! What the macro's expansion names. Not for direct use.
    pub use crate::export::{backend_interface, identity, shutdown};
    pub use crate::instance::{Exported, Instance};
}
