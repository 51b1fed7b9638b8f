//! Memory: of the device, and of the host where the device reaches it.

use std::ffi::c_void;
use std::sync::Arc;

use cajeta_plugin_api::Answer;
use cudarc::driver::sys::{
    CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_PORTABLE, CUdeviceptr, cuMemAlloc_v2, cuMemFree_v2,
    cuMemFreeHost, cuMemHostAlloc,
};

use super::context::Context;
use super::error::check;

/// Device memory, released when dropped. Freeing waits for work that may use it.
pub(crate) struct DeviceMemory {
    context: Arc<Context>,
    address: CUdeviceptr,
}

impl DeviceMemory {
    /// `bytes` (> 0) of device memory, on at least 256 bytes.
    pub(crate) fn alloc(context: &Arc<Context>, bytes: u64) -> Answer<DeviceMemory> {
        context.bind()?;
        let mut address: CUdeviceptr = 0;
        // SAFETY: a context is current; the driver writes one address.
        let allocated = unsafe { cuMemAlloc_v2(&raw mut address, bytes as usize) };
        check(allocated, &format!("allocating {bytes} bytes"))?;
        Ok(DeviceMemory { context: Arc::clone(context), address })
    }

    /// Its first byte.
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: allocated in `alloc` in this context and freed once, here. A lost device refuses; nothing is
            // left to do then.
            let _ = unsafe { cuMemFree_v2(self.address) };
        }
    }
}

/// Page-locked host memory at the same address for host and device, released when dropped.
pub(crate) struct PinnedMemory {
    context: Arc<Context>,
    address: *mut c_void,
    bytes: usize,
}

// SAFETY: memory without a thread of its own; who writes it when is the order of the queue.
unsafe impl Send for PinnedMemory {}
// SAFETY: as above.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// `bytes` (> 0) of page-locked memory.
    pub(crate) fn alloc(context: &Arc<Context>, bytes: usize) -> Answer<PinnedMemory> {
        context.bind()?;
        let mut address = std::ptr::null_mut();
        let flags = CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: a context is current; the driver writes one address.
        let allocated = unsafe { cuMemHostAlloc(&raw mut address, bytes, flags) };
        check(allocated, &format!("page-locking {bytes} bytes of host memory"))?;
        Ok(PinnedMemory { context: Arc::clone(context), address, bytes })
    }

    /// Its first byte.
    pub(crate) fn address(&self) -> *mut u8 {
        self.address.cast()
    }

    /// Its length.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: allocated in `alloc` and freed once, here.
            let _ = unsafe { cuMemFreeHost(self.address) };
        }
    }
}
