//! `backend/1`: what a plugin answers. Data and pure functions; no device is held.

use abi_stable::StableAbi;
use abi_stable::std_types::{RSlice, RStr};

use crate::code::Code;
use crate::facts::{DeviceFacts, HostInfo};
use crate::geometry::{Geometry, Problem};
use crate::ids::{Capability, LayoutId};
use crate::layout::{Layout, Shape};
use crate::manifest::Manifest;
use crate::row::Row;
use crate::text::ErrorBuf;

/// The table of `backend/1`.
///
/// Threads: every call may come from any thread at any time. Lifetimes: slices
/// and strings returned are static (the library is never unmapped). Errors:
/// anything but [`Code::OK`] leaves a sentence in `error`.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct BackendV1 {
    /// Finds the driver and its devices. The first place a driver library may
    /// be opened. [`Code::UNAVAILABLE`] with cause and remedy is the ordinary
    /// answer of a machine without the hardware. Idempotent.
    pub probe: extern "C" fn(host: &HostInfo<'_>, error: &mut ErrorBuf) -> Code,
    /// Writes the facts of up to `capacity` devices to `out` and their number
    /// to `count` (which may exceed `capacity`). After a successful `probe`.
    ///
    /// # Safety
    /// - `out` is writable for `capacity` elements.
    pub devices: unsafe extern "C" fn(
        out: *mut DeviceFacts,
        capacity: usize,
        count: &mut usize,
        error: &mut ErrorBuf,
    ) -> Code,
    /// [`Code::OK`] or [`Code::UNSUPPORTED`]. After a successful `probe`.
    pub supports: extern "C" fn(device: u32, capability: Capability, error: &mut ErrorBuf) -> Code,
    /// The kernel registry. Data: valid without `probe`, the same on every call.
    pub rows: extern "C" fn() -> RSlice<'static, Row>,
    /// The layouts this plugin owns. Data, as `rows`.
    pub layouts: extern "C" fn() -> RSlice<'static, Layout>,
    /// The manifest of a row for a code target (`DeviceFacts::target`).
    /// [`Code::UNSUPPORTED`] when there is no code for that target.
    pub manifest: extern "C" fn(row: u32, target: RStr<'_>, out: &mut Manifest, error: &mut ErrorBuf) -> Code,
    /// The launch shape of a row at a problem with the scalars of the launch
    /// (as in [`crate::Launch::scalars`]: heads decide an attention's grid).
    /// Pure. Scalars of another length than the row's steps take are
    /// [`Code::INVALID`].
    pub geometry: extern "C" fn(
        row: u32,
        facts: &DeviceFacts,
        problem: &Problem,
        scalars: RSlice<'_, u8>,
        out: &mut Geometry,
        error: &mut ErrorBuf,
    ) -> Code,
    /// Bytes a layout takes for the given sources. Pure. For K/V layouts the
    /// bytes of one block.
    pub layout_bytes: extern "C" fn(
        layout: LayoutId,
        shapes: RSlice<'_, Shape>,
        out: &mut u64,
        error: &mut ErrorBuf,
    ) -> Code,
}
