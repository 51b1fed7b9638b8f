//! Buffers: device memory, or page-locked host memory the device reaches.

use std::sync::Arc;

use cajeta_plugin_api::abi::MemoryKind;
use cajeta_plugin_api::{Answer, Fault};

use crate::driver::{Context, DeviceMemory, PinnedMemory, Stream};

/// What poisoned memory holds.
const POISON: u8 = 0xFF;

enum Place {
    Device(DeviceMemory),
    Host(PinnedMemory),
}

/// A buffer.
pub struct Buffer {
    place: Place,
    bytes: u64,
}

impl Buffer {
    pub(super) fn alloc(
        context: &Arc<Context>,
        fills: &Stream,
        bytes: u64,
        kind: MemoryKind,
        poison: bool,
    ) -> Answer<Buffer> {
        let length = usize::try_from(bytes).ok().filter(|&length| length <= isize::MAX as usize);
        let length = length
            .ok_or_else(|| Fault::out_of_memory(format!("{bytes} bytes are more than can be addressed")))?;
        match kind {
            MemoryKind::DEVICE => {
                let memory = DeviceMemory::alloc(context, bytes)?;
                if poison {
                    // SAFETY: fresh device memory of this length that nobody else knows; it lives past the wait.
                    unsafe { fills.fill(memory.address(), POISON, bytes)? };
                    fills.wait()?;
                }
                Ok(Buffer { place: Place::Device(memory), bytes })
            }
            MemoryKind::STAGING => {
                let memory = PinnedMemory::alloc(context, length)?;
                if poison {
                    // SAFETY: fresh host memory of this length that nobody else knows.
                    unsafe { std::ptr::write_bytes(memory.address(), POISON, length) };
                }
                Ok(Buffer { place: Place::Host(memory), bytes })
            }
            other => Err(Fault::unsupported(format!("memory kind {} is not known", other.0))),
        }
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.bytes
    }

    /// Its address on the device.
    pub(crate) fn address(&self) -> u64 {
        match &self.place {
            Place::Device(memory) => memory.address(),
            // Host and device share one address space.
            Place::Host(memory) => memory.address() as u64,
        }
    }

    /// Its address on the host, where it has one.
    pub(super) fn host_address(&self) -> Option<*mut u8> {
        match &self.place {
            Place::Device(_) => None,
            Place::Host(memory) => Some(memory.address()),
        }
    }
}
