//! Buffers of a device, spans of them, and host pages made buffers.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use cajeta_abi::{BufferArg, Code, Handle};

use super::error::DeviceError;
use super::open::Device;

/// Owns host pages that a device reads in place.
///
/// # Safety
/// - `pages` answers the same bytes on every call, and they stay mapped, readable and unchanged, at
///   the same address, while the owner lives.
pub unsafe trait PageOwner: Send + Sync {
    /// The bytes; page-aligned where the device asks for it.
    fn pages(&self) -> &[u8];
}

// SAFETY: a map stays at its address, readable, until it is dropped; whoever made it from a file has
// already answered for nobody changing that file.
unsafe impl PageOwner for memmap2::Mmap {
    fn pages(&self) -> &[u8] {
        self
    }
}

/// Memory of a device. Cheap to clone; freed when the last clone, span and list naming it is gone.
#[derive(Clone)]
pub struct Buffer(Arc<Inner>);

struct Inner {
    device: Device,
    handle: Handle,
    len: u64,
    /// Present for imported pages.
    owner: Option<Arc<dyn PageOwner>>,
}

impl Buffer {
    pub(super) fn new(
        device: &Device,
        handle: Handle,
        len: u64,
        owner: Option<Arc<dyn PageOwner>>,
    ) -> Buffer {
        Buffer(Arc::new(Inner { device: device.clone(), handle, len, owner }))
    }

    /// The device it is of.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Bytes it has. Never zero.
    pub fn len(&self) -> u64 {
        self.0.len
    }

    /// False: a buffer of no bytes cannot be made.
    pub fn is_empty(&self) -> bool {
        self.0.len == 0
    }

    /// Whether it is imported host pages, which may not be written.
    pub fn is_imported(&self) -> bool {
        self.0.owner.is_some()
    }

    /// Whether two handles are of one buffer.
    pub fn is_same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// `len` bytes from `offset`.
    ///
    /// # Errors
    /// [`Code::INVALID`] when they are not all inside the buffer.
    pub fn span(&self, offset: u64, len: u64) -> Result<BufferSpan, DeviceError> {
        if offset > self.len() || len > self.len() - offset {
            let text = format!("{len} bytes from {offset} leave the buffer of {} bytes", self.len());
            return Err(self.device().error("span", Code::INVALID, text));
        }
        Ok(BufferSpan { buffer: self.clone(), offset, len })
    }

    /// All of it.
    pub fn whole(&self) -> BufferSpan {
        BufferSpan { buffer: self.clone(), offset: 0, len: self.len() }
    }

    /// The host address of its first byte, valid while the buffer lives. Coherent at ticket
    /// boundaries: whoever dereferences it proves that no work touches the bytes meanwhile.
    ///
    /// # Errors
    /// [`Code::UNSUPPORTED`] where the memory is not host-visible.
    pub fn map(&self) -> Result<NonNull<u8>, DeviceError> {
        let mut address = std::ptr::null_mut();
        self.device()
            .ask("map", |table, device, error| (table.map)(device, self.0.handle, &mut address, error))?;
        NonNull::new(address).ok_or_else(|| {
            self.device().error("map", Code::INTERNAL, "the plugin answered ok without an address")
        })
    }

    /// The backend's handle: what tells this buffer from others of its device.
    pub fn handle(&self) -> Handle {
        self.0.handle
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let code = (self.device.table().free)(self.device.handle(), self.handle);
        if code != Code::OK {
            tracing::warn!(backend = %self.device.backend().id(), code = code.name(), "freeing a buffer failed");
        }
        if let Some(owner) = self.owner.take() {
            self.device.retire(owner);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:#x}, {} bytes)", self.0.handle.0, self.len())
    }
}

/// Bytes of a buffer; always inside it. Keeps it alive.
#[derive(Clone, Debug)]
pub struct BufferSpan {
    buffer: Buffer,
    offset: u64,
    len: u64,
}

impl BufferSpan {
    /// The buffer.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// Its first byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it spans nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// `len` bytes from `offset` of this span.
    ///
    /// # Errors
    /// [`Code::INVALID`] when they are not all inside it.
    pub fn part(&self, offset: u64, len: u64) -> Result<BufferSpan, DeviceError> {
        if offset > self.len || len > self.len - offset {
            let text = format!("{len} bytes from {offset} leave the span of {} bytes", self.len);
            return Err(self.buffer.device().error("span", Code::INVALID, text));
        }
        Ok(BufferSpan { buffer: self.buffer.clone(), offset: self.offset + offset, len })
    }

    pub(super) fn arg(&self) -> BufferArg {
        BufferArg { buffer: self.buffer.handle(), offset: self.offset, len: self.len }
    }
}
