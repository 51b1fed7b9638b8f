//! An open backend: its registry, its devices, and the pure questions it answers.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{
    BackendV1, Capability, Code, DeviceFacts, DeviceV1, ErrorBuf, Geometry, HostInfo, Layout, LayoutId,
    Manifest, Problem, Row, Shape,
};

use super::error::DeviceError;
use super::open::Device;
use crate::candidate::{Refusal, Stage};
use crate::contradictions::RefusedRow;
use crate::manifest::PluginManifest;
use crate::open::{self, OpenLibrary};
use crate::rows;

/// Most devices a backend may list.
pub(super) const DEVICES_MAX: usize = 256;

/// An open backend plugin. Cheap to clone; the library stays mapped until the process ends.
#[derive(Clone)]
pub struct Backend(Arc<Inner>);

struct Inner {
    library: OpenLibrary,
    open_devices: AtomicUsize,
    shut_down: AtomicBool,
}

/// The libraries of this process by canonical path: opened and checked once each.
static OPENED: Mutex<BTreeMap<PathBuf, Backend>> = Mutex::new(BTreeMap::new());

fn opened() -> MutexGuard<'static, BTreeMap<PathBuf, Backend>> {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells every open plugin that the process is about to exit. Call it once, after the last
/// [`Device`] is dropped; a plugin with a device still open is left alone.
pub fn shutdown() {
    for backend in opened().values() {
        let inner = &backend.0;
        if inner.open_devices.load(Ordering::Acquire) == 0 && !inner.shut_down.swap(true, Ordering::AcqRel) {
            (inner.library.root.shutdown())();
        }
    }
}

impl Backend {
    /// Opens a library that passed the stages which open nothing. `path` is canonical. A path that
    /// is open already is answered by the same backend.
    ///
    /// # Errors
    /// The stage the library failed at: open, symbol, abi, manifest or layout.
    pub(crate) fn load(
        path: &Path,
        manifest: Option<&PluginManifest>,
        reached: &mut dyn FnMut(Stage),
    ) -> Result<Backend, Refusal> {
        let mut opened = opened();
        if let Some(backend) = opened.get(path) {
            return Ok(backend.clone());
        }
        let library = open::open(path, manifest, reached)?;
        let backend = Backend(Arc::new(Inner {
            library,
            open_devices: AtomicUsize::new(0),
            shut_down: AtomicBool::new(false),
        }));
        opened.insert(path.to_owned(), backend.clone());
        Ok(backend)
    }

    /// The backend id.
    pub fn id(&self) -> &str {
        &self.0.library.id
    }

    /// Version of the plugin.
    pub fn version(&self) -> &str {
        &self.0.library.version
    }

    /// One line about it.
    pub fn description(&self) -> &str {
        &self.0.library.description
    }

    /// SPDX expression of its licence.
    pub fn license(&self) -> &str {
        &self.0.library.license
    }

    /// The library's file.
    pub fn path(&self) -> &Path {
        &self.0.library.path
    }

    /// The kernel registry. Names are unique, printable and at most [`rows::NAME_MAX`] bytes; every
    /// list of a row is well formed; rows of ops the catalog does not know may be among them.
    pub fn rows(&self) -> &'static [Row] {
        self.0.library.rows
    }

    /// Rows that are not used, each with its reason: of an op or a capability that this host does not have.
    pub fn refused_rows(&self) -> &[RefusedRow] {
        &self.0.library.refused_rows
    }

    /// The plugin's own layouts, in the order of their ids from [`LayoutId::OWN`].
    pub fn layouts(&self) -> &'static [Layout] {
        self.0.library.layouts
    }

    /// Finds the driver and its devices.
    ///
    /// # Errors
    /// [`Code::UNAVAILABLE`] with cause and remedy where the hardware or its driver is missing.
    pub fn probe(&self, probing: bool) -> Result<(), DeviceError> {
        let folder = self.path().parent().map(|folder| folder.to_string_lossy()).unwrap_or_default();
        let host = HostInfo {
            host_version: RStr::from_str(env!("CARGO_PKG_VERSION")),
            plugin_dir: RStr::from_str(&folder),
            probing: u32::from(probing),
        };
        self.ask("probe", |table, error| (table.probe)(&host, error))
    }

    /// Facts of every device, read from the driver now. After [`Backend::probe`].
    ///
    /// # Errors
    /// Whatever the plugin answers; a list of more than 256 is an internal error of it.
    pub fn devices(&self) -> Result<Vec<DeviceFacts>, DeviceError> {
        let mut facts = vec![DeviceFacts::NONE; DEVICES_MAX];
        let mut count = 0;
        self.ask("devices", |table, error| {
            // SAFETY: `facts` is writable for its length, which is the capacity passed.
            unsafe { (table.devices)(facts.as_mut_ptr(), facts.len(), &mut count, error) }
        })?;
        if count > DEVICES_MAX {
            let text = format!("the plugin lists {count} devices; at most {DEVICES_MAX} are taken");
            return Err(self.error("devices", Code::INTERNAL, text));
        }
        facts.truncate(count);
        Ok(facts)
    }

    /// Whether a device can do something. After [`Backend::probe`].
    ///
    /// # Errors
    /// Any answer but yes and no.
    pub fn supports(&self, device: u32, capability: Capability) -> Result<bool, DeviceError> {
        match self.ask("supports", |table, error| (table.supports)(device, capability, error)) {
            Ok(()) => Ok(true),
            Err(error) if error.is_unsupported() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What the compiler measured about a row's code for a target; `None` when there is no code.
    ///
    /// # Errors
    /// Whatever the plugin answers; lists or text that are not, are an internal error of it.
    pub fn manifest(&self, row: usize, target: &str) -> Result<Option<Manifest>, DeviceError> {
        let row = self.row_number("manifest", row)?;
        let mut manifest = Manifest::none();
        let answer = self.ask("manifest", |table, error| {
            (table.manifest)(row, RStr::from_str(target), &mut manifest, error)
        });
        match answer {
            Err(error) if error.is_unsupported() => return Ok(None),
            other => other?,
        }
        let texts = [manifest.target, manifest.compiler, manifest.declared];
        let native = rows::slice(manifest.native, rows::LIST_MAX);
        let well_formed = texts.into_iter().all(|raw| rows::text(raw, 1024).is_some())
            && rows::slice(manifest.feasible_blocks, rows::LIST_MAX).is_some()
            && rows::slice(manifest.access, rows::LIST_MAX).is_some()
            && native.is_some_and(|native| {
                native.iter().all(|op| {
                    [op.operation, op.instruction, op.tier]
                        .into_iter()
                        .all(|raw| rows::text(raw, 256).is_some())
                })
            });
        if !well_formed {
            let text = format!("the manifest of row {row} has broken text or lists");
            return Err(self.error("manifest", Code::INTERNAL, text));
        }
        Ok(Some(manifest))
    }

    /// The launch shape of a row at a problem, with the launch's scalars. Pure: works without a probe.
    ///
    /// # Errors
    /// [`Code::UNSUPPORTED`] or [`Code::INVALID`] where the row does not serve the problem.
    pub fn geometry(
        &self,
        row: usize,
        facts: &DeviceFacts,
        problem: &Problem,
        scalars: &[u8],
    ) -> Result<Geometry, DeviceError> {
        let row = self.row_number("geometry", row)?;
        let mut geometry = Geometry::default();
        self.ask("geometry", |table, error| {
            (table.geometry)(row, facts, problem, scalars.into(), &mut geometry, error)
        })?;
        if geometry.split_min > geometry.split_max {
            let text = format!(
                "row {row} splits in at least {} and at most {} parts",
                geometry.split_min, geometry.split_max
            );
            return Err(self.error("geometry", Code::INTERNAL, text));
        }
        Ok(geometry)
    }

    /// Bytes a layout takes for the given sources; for K/V layouts the bytes of one block. Pure.
    ///
    /// # Errors
    /// [`Code::UNSUPPORTED`] or [`Code::INVALID`] for shapes or formats the layout does not take.
    pub fn layout_bytes(&self, layout: LayoutId, shapes: &[Shape]) -> Result<u64, DeviceError> {
        let mut bytes = 0;
        let shapes = RSlice::from_slice(shapes);
        self.ask("layout_bytes", |table, error| (table.layout_bytes)(layout, shapes, &mut bytes, error))?;
        Ok(bytes)
    }

    /// Opens device `index` of [`Backend::devices`].
    ///
    /// # Errors
    /// Whatever the plugin answers.
    pub fn open(&self, index: u32) -> Result<Device, DeviceError> {
        Device::open(self, index)
    }

    fn row_number(&self, operation: &'static str, row: usize) -> Result<u32, DeviceError> {
        let count = self.rows().len();
        u32::try_from(row).ok().filter(|_| row < count).ok_or_else(|| {
            self.error(operation, Code::INVALID, format!("row {row} of {count} does not exist"))
        })
    }

    fn ask(
        &self,
        operation: &'static str,
        call: impl FnOnce(&BackendV1, &mut ErrorBuf) -> Code,
    ) -> Result<(), DeviceError> {
        if self.0.shut_down.load(Ordering::Acquire) {
            return Err(self.error(operation, Code::UNAVAILABLE, "the backend was shut down"));
        }
        let mut error = ErrorBuf::new();
        match call(self.0.library.backend, &mut error) {
            Code::OK => Ok(()),
            code => Err(DeviceError::said(operation, self.name(), code, &error)),
        }
    }

    pub(super) fn error(&self, operation: &'static str, code: Code, text: impl Into<String>) -> DeviceError {
        DeviceError::new(operation, self.name(), code, text)
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.0.library.id
    }

    /// The raw table of what answers, for whoever tests the plugin's own checks.
    pub fn backend_table(&self) -> &'static BackendV1 {
        self.0.library.backend
    }

    /// The raw table of what executes, for whoever tests the plugin's own checks: nothing that
    /// [`Device`] keeps in order is kept here.
    pub fn device_table(&self) -> &'static DeviceV1 {
        self.0.library.device
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.0.shut_down.load(Ordering::Acquire)
    }

    pub(super) fn count_open(&self) {
        self.0.open_devices.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn count_closed(&self) {
        self.0.open_devices.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Backend({} {} from {})", self.id(), self.version(), self.path().display())
    }
}
