//! The reference backend: the catalog's oracles compiled as a plugin.
//!
//! It is three things at once. A template: a backend author copies this folder
//! and replaces what computes (`README.md` says how). A null driver: it needs
//! nothing but a processor, so the host's plugin path is exercised everywhere. A
//! fake device: its memory is not addressable, its work completes on another
//! thread, and `CAJETA_REFERENCE_*` variables make it slow, small or broken.
//!
//! A reader walks it in this order: [`settings`] are those variables, [`facts`]
//! what the device says of itself, [`layouts`] the two arrangements it owns,
//! [`registry`] its rows, [`launch`] how a launch is held against its row and
//! computed, [`device`] memory, queues and the thread that works.

pub mod settings;
pub mod facts;
pub mod layouts;
pub mod registry;
pub mod launch;
pub mod device;

use cajeta_plugin_api::abi::{
    Capability, DeviceFacts, Geometry, HostInfo, Layout, LayoutId, Manifest, Problem, Row, Shape,
};
use cajeta_plugin_api::{Answer, Backend, Fault, export_backend};

use settings::Settings;

/// The backend the library exports.
pub struct Reference;

impl Backend for Reference {
    type Device = device::ReferenceDevice;

    const ID: &'static str = "reference";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const DESCRIPTION: &'static str = "The catalog's oracles: slow, exact, and as awkward as a device may be";
    const LICENSE: &'static str = "Apache-2.0 OR MIT";

    fn probe(_host: &HostInfo<'_>) -> Answer<()> {
        // A real backend opens its driver library here. This one has only its
        // variables to read, and a bad one is said now rather than ignored.
        Settings::read().map(|_| ())
    }

    fn devices() -> Answer<Vec<DeviceFacts>> {
        Ok(vec![facts::of(&Settings::read()?)])
    }

    fn supports(device: u32, capability: Capability) -> Answer<bool> {
        if device != 0 {
            return Err(Fault::invalid(format!("device {device} does not exist: there is one, 0")));
        }
        Ok(facts::supports(&Settings::read()?, capability))
    }

    fn rows() -> &'static [Row] {
        registry::rows()
    }

    fn layouts() -> &'static [Layout] {
        layouts::all()
    }

    fn manifest(row: usize, target: &str) -> Answer<Manifest> {
        if target != facts::TARGET {
            let what = format!("no code for target `{target}`: expected `{}`", facts::TARGET);
            return Err(Fault::unsupported(what));
        }
        registry::manifest(row)
    }

    fn geometry(_row: usize, _facts: &DeviceFacts, _problem: &Problem, _scalars: &[u8]) -> Answer<Geometry> {
        // One thread does it all, without scratch.
        Ok(Geometry {
            grid: [1; 3],
            block: [1; 3],
            cluster: [1; 3],
            split_min: 1,
            split_max: 1,
            ..Geometry::default()
        })
    }

    fn layout_bytes(layout: LayoutId, shapes: &[Shape]) -> Answer<u64> {
        layouts::bytes(layout, shapes)
    }
}

export_backend!(Reference);
