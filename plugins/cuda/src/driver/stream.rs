//! Streams, the order of work, and events, points on them.

use std::sync::Arc;

use cajeta_plugin_api::{Answer, Fault};
use cudarc::driver::sys::{
    CUdeviceptr, CUevent, CUevent_flags, CUresult, CUstream, CUstream_flags, cuEventCreate,
    cuEventDestroy_v2, cuEventElapsedTime_v2, cuEventQuery, cuEventRecord, cuMemcpyAsync, cuMemsetD8Async,
    cuStreamCreate, cuStreamDestroy_v2, cuStreamSynchronize,
};

use super::context::Context;
use super::error::check;

/// A stream of its own, independent of the default one.
pub(crate) struct Stream {
    context: Arc<Context>,
    pub(super) handle: CUstream,
}

// SAFETY: a stream handle may be used from any thread; its owner synchronises calls that take it.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// Makes a stream.
    pub(crate) fn new(context: &Arc<Context>) -> Answer<Stream> {
        context.bind()?;
        let mut handle: CUstream = std::ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a context is current; the driver writes one handle.
        check(unsafe { cuStreamCreate(&raw mut handle, flags) }, "making a stream")?;
        Ok(Stream { context: Arc::clone(context), handle })
    }

    /// Waits until everything queued is done.
    pub(crate) fn wait(&self) -> Answer<()> {
        self.context.bind()?;
        // SAFETY: the stream is live.
        check(unsafe { cuStreamSynchronize(self.handle) }, "waiting for a queue")
    }

    /// Queues a copy between any two of device, page-locked and ordinary host memory.
    ///
    /// # Safety
    /// - `from` is readable and `to` writable for `bytes` until the copy is done, and nothing else uses `to` before.
    pub(crate) unsafe fn copy(&self, to: CUdeviceptr, from: CUdeviceptr, bytes: u64) -> Answer<()> {
        self.context.bind()?;
        // SAFETY: the caller promises both ranges; the stream is live.
        check(
            unsafe { cuMemcpyAsync(to, from, bytes as usize, self.handle) },
            &format!("copying {bytes} bytes"),
        )
    }

    /// Queues a fill with one byte.
    ///
    /// # Safety
    /// - `at` is device memory, writable for `bytes` until the fill is done.
    pub(crate) unsafe fn fill(&self, at: CUdeviceptr, byte: u8, bytes: u64) -> Answer<()> {
        self.context.bind()?;
        // SAFETY: the caller promises the range; the stream is live.
        check(unsafe { cuMemsetD8Async(at, byte, bytes as usize, self.handle) }, "filling memory")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: made in `new` and destroyed once, here; the driver finishes what is queued.
            let _ = unsafe { cuStreamDestroy_v2(self.handle) };
        }
    }
}

/// A timed point on a stream.
pub(crate) struct Event {
    context: Arc<Context>,
    handle: CUevent,
}

// SAFETY: an event handle may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event not recorded yet.
    pub(crate) fn new(context: &Arc<Context>) -> Answer<Event> {
        context.bind()?;
        let mut handle: CUevent = std::ptr::null_mut();
        // SAFETY: a context is current; the driver writes one handle.
        let made = unsafe { cuEventCreate(&raw mut handle, CUevent_flags::CU_EVENT_DEFAULT as u32) };
        check(made, "making an event")?;
        Ok(Event { context: Arc::clone(context), handle })
    }

    /// Marks the end of what is queued now.
    pub(crate) fn record(&self, stream: &Stream) -> Answer<()> {
        self.context.bind()?;
        // SAFETY: event and stream are live and of one context.
        check(unsafe { cuEventRecord(self.handle, stream.handle) }, "marking a queue")
    }

    /// Whether what it marks is done.
    pub(crate) fn is_done(&self) -> Answer<bool> {
        // SAFETY: the event is live; the question needs no current context.
        match unsafe { cuEventQuery(self.handle) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            result => check(result, "running a queue").map(|()| true),
        }
    }

    /// Nanoseconds from `earlier` to this; both done.
    pub(crate) fn since(&self, earlier: &Event) -> Answer<u64> {
        self.context.bind()?;
        let mut milliseconds = 0f32;
        // SAFETY: both events are live and of one context.
        let asked = unsafe { cuEventElapsedTime_v2(&raw mut milliseconds, earlier.handle, self.handle) };
        check(asked, "reading the time between two marks")?;
        if !milliseconds.is_finite() {
            return Err(Fault::internal("the driver's clock gave no number"));
        }
        Ok((f64::from(milliseconds.max(0.0)) * 1e6) as u64)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: made in `new` and destroyed once, here.
            let _ = unsafe { cuEventDestroy_v2(self.handle) };
        }
    }
}
