//! The binary interface between the cajeta host and its backend plugins.
//!
//! A plugin is a shared library that exports one symbol, the `abi_stable`
//! header of a [`Root`]. The root is frozen forever; everything else is reached
//! through [`Root::interface`], which answers an id such as `backend/1` with an
//! immutable table and the layout of its type. Growth is a new id, never a new
//! field. `ABI.md` beside this crate states the rules in prose.
//!
//! This crate is a leaf: it depends on no other part of cajeta, and it stays at
//! version 1.x so that a plugin built years ago still has the same types.

pub mod root;
pub mod code;
pub mod text;
pub mod ids;
pub mod facts;
pub mod layout;
pub mod row;
pub mod manifest;
pub mod geometry;
pub mod launch;
pub mod backend;
pub mod device;

pub use abi_stable;

pub use backend::BackendV1;
pub use code::Code;
pub use device::DeviceV1;
pub use facts::{DeviceFacts, Fact, HostInfo, MemInfo};
pub use geometry::{Geometry, Problem};
pub use ids::{
    Access, Arith, Capability, DtypeId, FormatId, Handle, LayoutId, MemoryKind, OpId, ReadyKind, Regime,
    Subject, Test, Ticket,
};
pub use launch::{BufferArg, Launch, SCALAR_BYTES_MAX, Span};
pub use layout::{Layout, LayoutKind, Shape};
pub use manifest::{Manifest, NativeOp};
pub use root::{Identity, Interface, Root, RootRef};
pub use row::{ArgSpec, Need, ReadyGate, Row, ShapeGate, Step, Wire};
pub use text::{ErrorBuf, Text};

/// The id of the table every backend must answer: [`BackendV1`].
pub const BACKEND_1: &str = "backend/1";
/// The id of the table that executes: [`DeviceV1`].
pub const DEVICE_1: &str = "device/1";
