//! An open device: its facts, its memory, and what the rest of this folder is made from.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cajeta_abi::{Access, Capability, Code, DeviceFacts, DeviceV1, ErrorBuf, Handle, MemInfo, MemoryKind};

use super::backend::Backend;
use super::error::DeviceError;
use super::list::{LaunchSpec, List};
use super::memory::{Buffer, PageOwner};
use super::queue::Queue;

/// An open device. Cheap to clone; closes when the last clone and everything made from it is gone.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backend: Backend,
    index: u32,
    handle: Handle,
    facts: DeviceFacts,
    /// The sentence of the first answer that said the device is gone.
    lost: OnceLock<String>,
    /// Owners of imported pages whose buffers are gone. Work that names them may still run; `close`
    /// waits for it, so they go after it.
    retired: Mutex<Vec<Arc<dyn PageOwner>>>,
}

impl Device {
    pub(super) fn open(backend: &Backend, index: u32) -> Result<Device, DeviceError> {
        let devices = backend.devices()?;
        let Some(facts) = devices.get(index as usize).copied() else {
            let text = format!("device {index} does not exist; the backend lists {}", devices.len());
            return Err(backend.error("open", Code::INVALID, text));
        };
        if backend.is_shut_down() {
            return Err(backend.error("open", Code::UNAVAILABLE, "the backend was shut down"));
        }
        let mut handle = Handle::NONE;
        let mut error = ErrorBuf::new();
        backend.count_open();
        let code = (backend.device_table().open)(index, &mut handle, &mut error);
        if code != Code::OK || handle == Handle::NONE {
            backend.count_closed();
            let code = if code == Code::OK { Code::INTERNAL } else { code };
            return Err(DeviceError::said("open", backend.name(), code, &error));
        }
        Ok(Device(Arc::new(Inner {
            backend: backend.clone(),
            index,
            handle,
            facts,
            lost: OnceLock::new(),
            retired: Mutex::new(Vec::new()),
        })))
    }

    /// The backend it belongs to.
    pub fn backend(&self) -> &Backend {
        &self.0.backend
    }

    /// Its position in [`Backend::devices`].
    pub fn index(&self) -> u32 {
        self.0.index
    }

    /// Facts as they were when it was opened.
    pub fn facts(&self) -> &DeviceFacts {
        &self.0.facts
    }

    /// Whether it can do something.
    ///
    /// # Errors
    /// Any answer but yes and no.
    pub fn supports(&self, capability: Capability) -> Result<bool, DeviceError> {
        self.backend().supports(self.0.index, capability)
    }

    /// Memory now.
    ///
    /// # Errors
    /// Whatever the plugin answers.
    pub fn mem_info(&self) -> Result<MemInfo, DeviceError> {
        let mut info = MemInfo::default();
        self.ask("mem_info", |table, device, error| (table.mem_info)(device, &mut info, error))?;
        Ok(info)
    }

    /// Allocates `bytes` (not zero) bytes. With `poison` they read as NaN in every float format
    /// until something writes them; without it their content is undefined.
    ///
    /// # Errors
    /// [`Code::OUT_OF_MEMORY`] when there is no room.
    pub fn alloc(&self, bytes: u64, kind: MemoryKind, poison: bool) -> Result<Buffer, DeviceError> {
        if bytes == 0 {
            return Err(self.error("alloc", Code::INVALID, "a buffer of no bytes"));
        }
        let poison = u32::from(poison);
        let handle = self.make("alloc", |table, device, out, error| {
            (table.alloc)(device, bytes, kind, poison, out, error)
        })?;
        Ok(Buffer::new(self, handle, bytes, None))
    }

    /// Makes host pages a buffer the device can read, without copying. The device keeps `owner`
    /// alive until it closes, because work that names the pages may outlive the buffer.
    ///
    /// # Errors
    /// [`Code::UNSUPPORTED`] where the device cannot; copy with an upload then.
    pub fn import(&self, owner: Arc<dyn PageOwner>) -> Result<Buffer, DeviceError> {
        let pages = owner.pages();
        let (base, len) = (pages.as_ptr().cast_mut(), pages.len() as u64);
        if len == 0 {
            return Err(self.error("import", Code::INVALID, "no bytes to import"));
        }
        let handle = self.make("import", |table, device, out, error| {
            // SAFETY: `PageOwner` promises that the bytes stay where they are, readable and
            // unchanged, while the owner lives; the buffer and then the device keep it alive until
            // `close` has waited for all work. Access is READ, so nothing is written.
            unsafe { (table.import)(device, base, len, Access::READ, out, error) }
        })?;
        Ok(Buffer::new(self, handle, len, Some(owner)))
    }

    /// Makes a queue.
    ///
    /// # Errors
    /// Whatever the plugin answers.
    pub fn queue(&self) -> Result<Queue, DeviceError> {
        let handle = self.make("queue", |table, device, out, error| (table.queue)(device, out, error))?;
        Ok(Queue::new(self, handle))
    }

    /// Prepares launches: checked once, submitted many times. Launches run in order, each seeing
    /// what earlier ones wrote. The list keeps the buffers it names alive.
    ///
    /// # Errors
    /// [`Code::INVALID`] naming the launch that breaks its row's contract.
    pub fn list(&self, launches: &[LaunchSpec]) -> Result<List, DeviceError> {
        List::prepare(self, launches)
    }

    /// Why the device is gone, if it is.
    pub fn lost(&self) -> Option<&str> {
        self.0.lost.get().map(String::as_str)
    }

    /// Whether two handles are of one device.
    pub fn is_same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn table(&self) -> &'static DeviceV1 {
        self.0.backend.device_table()
    }

    pub(super) fn handle(&self) -> Handle {
        self.0.handle
    }

    pub(super) fn error(&self, operation: &'static str, code: Code, text: impl Into<String>) -> DeviceError {
        self.0.backend.error(operation, code, text)
    }

    /// Keeps imported pages until the device has closed.
    pub(super) fn retire(&self, owner: Arc<dyn PageOwner>) {
        self.0.retired.lock().unwrap_or_else(PoisonError::into_inner).push(owner);
    }

    /// A call that answers done or not.
    pub(super) fn ask(
        &self,
        operation: &'static str,
        call: impl FnOnce(&DeviceV1, Handle, &mut ErrorBuf) -> Code,
    ) -> Result<(), DeviceError> {
        self.answer(operation, call).and_then(|code| match code {
            Code::OK => Ok(()),
            code => Err(self.error(operation, code, "an answer this call does not have")),
        })
    }

    /// A call that makes an object. Zero is no object, whatever the code says.
    pub(super) fn make(
        &self,
        operation: &'static str,
        call: impl FnOnce(&DeviceV1, Handle, &mut Handle, &mut ErrorBuf) -> Code,
    ) -> Result<Handle, DeviceError> {
        let mut out = Handle::NONE;
        self.ask(operation, |table, device, error| call(table, device, &mut out, error))?;
        if out == Handle::NONE {
            return Err(self.error(operation, Code::INTERNAL, "the plugin answered ok without an object"));
        }
        Ok(out)
    }

    /// A call that answers OK or PENDING. Loss is remembered, and answered from memory ever after.
    pub(super) fn answer(
        &self,
        operation: &'static str,
        call: impl FnOnce(&DeviceV1, Handle, &mut ErrorBuf) -> Code,
    ) -> Result<Code, DeviceError> {
        if let Some(sentence) = self.lost() {
            return Err(self.error(operation, Code::LOST, sentence));
        }
        let mut words = ErrorBuf::new();
        match call(self.table(), self.handle(), &mut words) {
            code @ (Code::OK | Code::PENDING) => Ok(code),
            code => {
                let error = DeviceError::said(operation, self.backend().name(), code, &words);
                if code == Code::LOST {
                    let _ = self.0.lost.set(error.text.clone());
                }
                Err(error)
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let code = (self.backend.device_table().close)(self.handle);
        if code != Code::OK {
            tracing::warn!(backend = %self.backend.id(), code = code.name(), "closing the device failed");
            // Nothing says that work has ended, so pages it may read must stay.
            let retired = self.retired.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::take(retired));
        }
        self.backend.count_closed();
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} {} {})", self.backend().id(), self.0.index, self.0.facts.name)
    }
}
