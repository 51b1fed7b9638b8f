//! What a plugin holds while loaded: its open devices and their objects.

use std::sync::{Arc, Mutex, OnceLock};

use cajeta_abi::{BackendV1, Code, DeviceFacts, DeviceV1, Handle};

use crate::backend::Backend;
use crate::device::Device;
use crate::fault::{Answer, Fault};
use crate::handles::Handles;

/// A backend that the macro exported: it has one static [`Instance`].
pub trait Exported: Backend {
    /// The plugin's one instance.
    fn instance() -> &'static Instance<Self>;
}

/// The state of a loaded plugin.
pub struct Instance<B: Backend> {
    devices: OnceLock<Handles<Open<B::Device>>>,
    /// The tables handed to the host, made on first request.
    pub(crate) backend_table: OnceLock<BackendV1>,
    pub(crate) device_table: OnceLock<DeviceV1>,
}

impl<B: Backend> Instance<B> {
    /// Nothing open. A constant: no work happens when the library is loaded.
    pub const fn new() -> Instance<B> {
        Instance { devices: OnceLock::new(), backend_table: OnceLock::new(), device_table: OnceLock::new() }
    }

    pub(crate) fn devices(&self) -> &Handles<Open<B::Device>> {
        self.devices.get_or_init(|| Handles::new("device"))
    }

    pub(crate) fn device(&self, handle: Handle) -> Answer<Arc<Open<B::Device>>> {
        self.devices().get(handle)
    }
}

impl<B: Backend> Default for Instance<B> {
    fn default() -> Instance<B> {
        Instance::new()
    }
}

/// An open device. Field order is drop order: what uses the device goes first.
pub(crate) struct Open<D: Device> {
    pub(crate) queues: Handles<Mutex<D::Queue>>,
    pub(crate) lists: Handles<Arc<D::List>>,
    pub(crate) buffers: Handles<Arc<D::Buffer>>,
    pub(crate) device: D,
    pub(crate) facts: DeviceFacts,
    lost: OnceLock<String>,
}

impl<D: Device> Open<D> {
    pub(crate) fn new(device: D, facts: DeviceFacts) -> Open<D> {
        Open {
            queues: Handles::new("queue"),
            lists: Handles::new("list"),
            buffers: Handles::new("buffer"),
            device,
            facts,
            lost: OnceLock::new(),
        }
    }

    /// Runs a call unless the device is lost, and remembers if it becomes so.
    pub(crate) fn unless_lost<T>(&self, call: impl FnOnce(&D) -> Answer<T>) -> Answer<T> {
        if let Some(text) = self.lost.get() {
            return Err(Fault::lost(text.clone()));
        }
        let answer = call(&self.device);
        if let Err(fault) = &answer
            && fault.code == Code::LOST
        {
            // A second loss changes nothing; the first names the cause.
            let _ = self.lost.set(fault.text.clone());
        }
        answer
    }
}
