//! Device memory: bytes that only the working thread touches.

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cajeta_plugin_api::{Answer, Fault};

/// Every allocation starts on a page, as a driver's do.
const PAGE: usize = 4096;

/// How much of the device is taken.
pub(super) struct Pool {
    total: u64,
    used: AtomicU64,
}

impl Pool {
    pub(super) fn new(total: u64) -> Pool {
        Pool { total, used: AtomicU64::new(0) }
    }

    pub(super) fn free(&self) -> u64 {
        self.total.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    fn take(&self, bytes: u64) -> Answer<()> {
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|&after| after <= self.total)
        });
        taken.map(|_| ()).map_err(|used| {
            let free = self.total.saturating_sub(used);
            Fault::out_of_memory(format!("{bytes} bytes asked for, {free} of {} are free", self.total))
        })
    }
}

/// One buffer.
pub struct Memory {
    base: NonNull<u8>,
    len: usize,
    /// What to give back, and where; `None` for imported pages.
    own: Option<(Layout, Arc<Pool>)>,
}

// SAFETY: the bytes are reached through `slice` and `slice_mut` alone, whose
// callers (one working thread per device) rule out concurrent use, and through
// `address`, whose receiver promises to keep off them while work runs.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`; shared references alone reach no bytes.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates, with every byte `fill`.
    pub(super) fn alloc(pool: &Arc<Pool>, bytes: u64, fill: u8) -> Answer<Memory> {
        let no_room = || Fault::out_of_memory(format!("{bytes} bytes asked for, the host has no room"));
        let len = usize::try_from(bytes).ok().filter(|&len| len > 0).ok_or_else(no_room)?;
        let layout = Layout::from_size_align(len, PAGE).map_err(|_| no_room())?;
        pool.take(bytes)?;
        // SAFETY: the layout has a size above zero.
        let base = NonNull::new(unsafe { std::alloc::alloc(layout) });
        let Some(base) = base else {
            pool.used.fetch_sub(bytes, Ordering::Relaxed);
            return Err(no_room());
        };
        // SAFETY: `base` was just allocated with `len` bytes, and nobody else has it.
        unsafe { base.as_ptr().write_bytes(fill, len) };
        Ok(Memory { base, len, own: Some((layout, Arc::clone(pool))) })
    }

    /// Takes host pages as they are.
    ///
    /// # Safety
    /// - `len` bytes from `base` stay mapped while this lives, and are written
    ///   by others only while no work runs.
    pub(super) unsafe fn import(base: *mut u8, len: u64) -> Answer<Memory> {
        let parts = NonNull::new(base).zip(usize::try_from(len).ok());
        let (base, len) = parts.ok_or_else(|| Fault::invalid("an import of no pages"))?;
        Ok(Memory { base, len, own: None })
    }

    pub(super) fn len(&self) -> u64 {
        self.len as u64
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    fn range(&self, offset: u64, len: u64) -> Option<(usize, usize)> {
        let (offset, len) = (usize::try_from(offset).ok()?, usize::try_from(len).ok()?);
        (offset <= self.len && len <= self.len - offset).then_some((offset, len))
    }

    /// Bytes to read; empty when they are not all there.
    ///
    /// # Safety
    /// - Nothing writes these bytes while the slice lives.
    pub(super) unsafe fn slice(&self, offset: u64, len: u64) -> &[u8] {
        let Some((offset, len)) = self.range(offset, len) else { return &[] };
        // SAFETY: the range is within the allocation, which lives as long as
        // `self` and was initialised when made; the caller rules out writers.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset), len) }
    }

    /// Bytes to write; empty when they are not all there.
    ///
    /// # Safety
    /// - Nothing else reads or writes these bytes while the slice lives.
    // The exclusion is the caller's promise; a `&mut self` could not state it,
    // as a list holds its buffers shared.
    #[allow(clippy::mut_from_ref)]
    pub(super) unsafe fn slice_mut(&self, offset: u64, len: u64) -> &mut [u8] {
        let Some((offset, len)) = self.range(offset, len) else { return &mut [] };
        // SAFETY: as in `slice`; the caller rules out every other use.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().add(offset), len) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some((layout, pool)) = self.own.take() {
            // SAFETY: allocated with this layout in `alloc` and freed once, here.
            unsafe { std::alloc::dealloc(self.base.as_ptr(), layout) };
            pool.used.fetch_sub(self.len as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_memory_is_poisoned_and_counted() {
        let pool = Arc::new(Pool::new(1000));
        let memory = Memory::alloc(&pool, 600, 0xFF).unwrap();
        assert_eq!(pool.free(), 400);
        // SAFETY: this test alone has the memory.
        assert!(unsafe { memory.slice(0, 600) }.iter().all(|&byte| byte == 0xFF));
        // SAFETY: as above; the range is outside, so the slice is empty.
        assert!(unsafe { memory.slice(599, 2) }.is_empty());
        assert!(Memory::alloc(&pool, 401, 0).is_err());
        drop(memory);
        assert_eq!(pool.free(), 1000);
    }
}
