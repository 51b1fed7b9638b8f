//! The half of a backend that answers: registry, manifests, capabilities.

use cajeta_abi::{
    Capability, DeviceFacts, Geometry, HostInfo, Layout, LayoutId, Manifest, Problem, Row, Shape,
};

use crate::device::Device;
use crate::fault::Answer;

/// What a plugin answers; the safe form of [`cajeta_abi::BackendV1`], where
/// each call's contract is written. Calls may come from any thread.
pub trait Backend: Sized + 'static {
    /// What executes.
    type Device: Device;

    /// Lowercase ASCII letters, digits and `-`; at most 32 bytes.
    const ID: &'static str;
    /// For people.
    const VERSION: &'static str;
    /// One line for people.
    const DESCRIPTION: &'static str;
    /// SPDX expression.
    const LICENSE: &'static str;

    /// Opens the driver and finds its devices.
    fn probe(host: &HostInfo<'_>) -> Answer<()>;

    /// Facts of every device, read from the driver now.
    fn devices() -> Answer<Vec<DeviceFacts>>;

    /// Whether a device can do something.
    fn supports(device: u32, capability: Capability) -> Answer<bool>;

    /// The kernel registry: data, the same on every call.
    fn rows() -> &'static [Row];

    /// The layouts this plugin owns: data, the same on every call.
    fn layouts() -> &'static [Layout];

    /// What the compiler measured about a row for a target. `row` is in range.
    fn manifest(row: usize, target: &str) -> Answer<Manifest>;

    /// Launch shape of a row at a problem. Pure. `row` is in range; `scalars` are the launch's.
    fn geometry(row: usize, facts: &DeviceFacts, problem: &Problem, scalars: &[u8]) -> Answer<Geometry>;

    /// Bytes an own layout takes for the given sources. Pure.
    fn layout_bytes(layout: LayoutId, shapes: &[Shape]) -> Answer<u64>;

    /// Called once before the host exits, after every device is closed.
    fn shutdown() {}
}
