//! The CUDA backend: the catalog computed by NVIDIA GPUs through the driver alone.
//!
//! Nothing of CUDA is linked: [`driver`] opens libcuda when the host probes, and a machine without it gets the ordinary
//! answer "unavailable". The device code is made by `cargo xtask kernels` and embedded ([`code`]).
//!
//! A reader follows a launch: [`registry`] is what the host chooses from, [`launch`] holds a chosen row against its
//! operands and shapes its kernels, [`device`] chains them in a graph and runs it. The kernels are in
//! `plugins/kernels/op`, one operation a file.

mod code;
mod driver;
mod facts;
mod registry;
mod launch;
mod device;

pub use device::{Buffer, CudaDevice, List, Queue};

use cajeta_plugin_api::abi::{
    Capability, DeviceFacts, Geometry, HostInfo, Layout, LayoutId, Manifest, Problem, Row, Shape,
};
use cajeta_plugin_api::{Answer, Backend, Fault};

/// The backend `cuda`.
pub struct CudaBackend;

impl Backend for CudaBackend {
    type Device = CudaDevice;

    const ID: &'static str = "cuda";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DESCRIPTION: &'static str = env!("CARGO_PKG_DESCRIPTION");
    const LICENSE: &'static str = env!("CARGO_PKG_LICENSE");

    fn probe(_host: &HostInfo<'_>) -> Answer<()> {
        driver::Driver::get().map(|_| ())
    }

    fn devices() -> Answer<Vec<DeviceFacts>> {
        facts::all()
    }

    fn supports(device: u32, capability: Capability) -> Answer<bool> {
        facts::supports(device, capability)
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

    fn geometry(row: usize, facts: &DeviceFacts, problem: &Problem, scalars: &[u8]) -> Answer<Geometry> {
        let entry =
            registry::entry(row).ok_or_else(|| Fault::invalid(format!("row {row} does not exist")))?;
        launch::geometry(entry, facts, problem, scalars)
    }

    fn layout_bytes(layout: LayoutId, shapes: &[Shape]) -> Answer<u64> {
        registry::layout_bytes(layout, shapes)
    }
}

cajeta_plugin_api::export_backend!(CudaBackend);
