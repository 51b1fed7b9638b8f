//! Memory: buffers of the device and the threads' working memory.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use cajeta_plugin_api::abi::Access;
use cajeta_plugin_api::{Answer, Fault};

use crate::machine;
use crate::task::ARENA;

/// Alignment of every allocation: a cache line, and a full vector.
const LINE: usize = 64;
/// Allocations from here on ask for huge pages. Smaller ones (a K or V plane)
/// would pay for clearing whole huge pages at their first touch.
const HUGE: usize = 64 << 20;
/// Size, and alignment, of a huge page.
const HUGE_PAGE: usize = 2 << 20;

/// A buffer: memory of our own, or pages of the host.
pub struct Buffer {
    start: NonNull<u8>,
    len: u64,
    /// How our own memory was allocated; `None` for imported pages.
    own: Option<Layout>,
    writable: bool,
}

// SAFETY: a buffer is plain memory. What may touch it at the same time is
// decided by the order of launches on queues, not by who holds the buffer.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates `bytes` (> 0), filled with 0xFF when `poison`.
    pub(crate) fn alloc(bytes: u64, poison: bool) -> Answer<Buffer> {
        let free = machine::memory().free;
        if bytes > free {
            return Err(Fault::out_of_memory(format!("{bytes} bytes were asked for, {free} are free")));
        }
        let layout = usize::try_from(bytes)
            .ok()
            .and_then(|len| Layout::from_size_align(len, if len >= HUGE { HUGE_PAGE } else { LINE }).ok())
            .ok_or_else(|| {
                Fault::out_of_memory(format!("{bytes} bytes are more than an address space holds"))
            })?;
        let start = reserve(layout)?;
        if poison {
            // SAFETY: `start` is a fresh allocation of `layout.size()` bytes.
            unsafe { start.write_bytes(0xff, layout.size()) };
        }
        Ok(Buffer { start, len: bytes, own: Some(layout), writable: true })
    }

    /// Takes host pages as a buffer.
    ///
    /// # Safety
    /// `base` points at `len` mapped bytes, readable and (where `access` says
    /// so) writable, while the buffer lives.
    pub(crate) unsafe fn import(base: *mut u8, len: u64, access: Access) -> Answer<Buffer> {
        let start =
            NonNull::new(base).ok_or_else(|| Fault::invalid("the pages to import are at address 0"))?;
        if usize::try_from(len).is_err() {
            return Err(Fault::invalid(format!("{len} bytes are more than an address space holds")));
        }
        Ok(Buffer { start, len, own: None, writable: access != Access::READ })
    }

    /// First byte.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Whether launches and uploads may write to it.
    pub(crate) fn writable(&self) -> bool {
        self.writable
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(layout) = self.own {
            // SAFETY: `start` came from `alloc` with this layout and is freed once.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

/// A thread's private working memory.
pub(crate) struct Arena {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain memory; its one user is whoever holds the arena.
unsafe impl Send for Arena {}

impl Arena {
    pub(crate) fn new() -> Answer<Arena> {
        let layout = Layout::from_size_align(ARENA * size_of::<f32>(), LINE)
            .map_err(|_| Fault::internal("the size of the working memory"))?;
        Ok(Arena { start: reserve(layout)?, layout })
    }

    /// First value.
    pub(crate) fn start(&self) -> *mut f32 {
        self.start.as_ptr().cast()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc` with this layout and is freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

fn reserve(layout: Layout) -> Answer<NonNull<u8>> {
    // SAFETY: no caller passes a layout of size 0.
    let start = NonNull::new(unsafe { alloc(layout) }).ok_or_else(|| {
        Fault::out_of_memory(format!("the system refused an allocation of {} bytes", layout.size()))
    })?;
    #[cfg(target_os = "linux")]
    if layout.size() >= HUGE {
        // SAFETY: the range is our own fresh allocation, aligned to a huge page; the
        // advice changes no content, and its failure changes nothing.
        unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
    }
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_aligned_poisoned_and_refused_when_absurd() {
        let buffer = Buffer::alloc(100, true).unwrap();
        assert_eq!((buffer.start() as usize % LINE, buffer.len(), buffer.writable()), (0, 100, true));
        // SAFETY: the buffer holds 100 bytes that nothing else touches.
        let bytes = unsafe { std::slice::from_raw_parts(buffer.start(), 100) };
        assert!(bytes.iter().all(|&byte| byte == 0xff));
        let refused = Buffer::alloc(1 << 60, false).err().map(|fault| fault.code);
        assert_eq!(refused, Some(cajeta_plugin_api::abi::Code::OUT_OF_MEMORY));
    }
}
