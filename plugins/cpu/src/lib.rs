//! The CPU backend: the catalog computed by this machine's own cores, straight
//! from the file's weight blocks, all arithmetic in f32.
//!
//! A reader follows a launch: [`registry`] is what the host chooses from, `task`
//! binds a chosen row to its operands, `device` runs bound tasks on its threads,
//! `kernel` holds the loops, written once over `simd` and `format` and built for
//! each `tier` of vector instructions.

mod tier;
mod settings;
mod simd;
mod format;
mod kernel;
mod machine;
mod sys;
mod facts;
mod task;
mod registry;
mod device;
#[cfg(test)]
mod tests;

pub use device::{Buffer, CpuDevice, List, Queue};

use cajeta_plugin_api::abi::{
    Capability, DeviceFacts, Geometry, HostInfo, Layout, LayoutId, Manifest, Problem, Row, Shape,
};
use cajeta_plugin_api::{Answer, Backend, Fault};

/// The backend `cpu`.
pub struct CpuBackend;

impl Backend for CpuBackend {
    type Device = CpuDevice;

    const ID: &'static str = "cpu";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DESCRIPTION: &'static str = env!("CARGO_PKG_DESCRIPTION");
    const LICENSE: &'static str = env!("CARGO_PKG_LICENSE");

    fn probe(_host: &HostInfo<'_>) -> Answer<()> {
        settings::check()
    }

    fn devices() -> Answer<Vec<DeviceFacts>> {
        Ok(vec![facts::facts()])
    }

    fn supports(device: u32, capability: Capability) -> Answer<bool> {
        if device != 0 {
            return Err(Fault::invalid(format!("device {device} does not exist: the CPU is device 0")));
        }
        let always = [
            Capability::IMPORT,
            Capability::HOST_VISIBLE,
            Capability::EVENT_CLOCK,
            Capability::SPANS,
            Capability::F16,
        ];
        Ok(always.contains(&capability)
            || tier::Tier::of_capability(capability).is_some_and(|t| t.supported()))
    }

    fn rows() -> &'static [Row] {
        registry::rows()
    }

    fn layouts() -> &'static [Layout] {
        registry::layouts()
    }

    fn manifest(row: usize, target: &str) -> Answer<Manifest> {
        registry::manifest(row, target)
    }

    fn geometry(row: usize, facts: &DeviceFacts, problem: &Problem, _scalars: &[u8]) -> Answer<Geometry> {
        let entry =
            registry::entry(row).ok_or_else(|| Fault::invalid(format!("row {row} does not exist")))?;
        registry::geometry(entry, facts, problem)
    }

    fn layout_bytes(layout: LayoutId, shapes: &[Shape]) -> Answer<u64> {
        registry::layout_bytes(layout, shapes)
    }
}

cajeta_plugin_api::export_backend!(CpuBackend);
