//! Queues: uploads, submissions and downloads in order, and waiting for them.
//!
//! A queue owns the host memory its copies use until they are complete, or does not return before
//! they are. A queue may move between threads and is used by one at a time.

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cajeta_abi::device::SUBMIT_SPANS;
use cajeta_abi::{Code, Handle, Span};

use super::error::DeviceError;
use super::list::List;
use super::memory::BufferSpan;
use super::open::Device;

/// Longest single wait inside the plugin; a wait without limit is many of these.
const WAIT_SLICE: Duration = Duration::from_millis(500);
/// Most spans one submission may answer.
const SPANS_MAX: usize = 1 << 20;

static NEXT_QUEUE: AtomicU64 = AtomicU64::new(1);

/// A point on one queue's timeline.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    queue: u64,
    value: cajeta_abi::Ticket,
}

/// A queue of a device.
pub struct Queue {
    device: Device,
    handle: Handle,
    number: u64,
    last: cajeta_abi::Ticket,
    /// Host bytes of copies that are not known to be complete, in ticket order.
    staged: VecDeque<Staged>,
    /// Moves between threads, is shared by none.
    _not_sync: PhantomData<Cell<()>>,
}

/// Host bytes a copy reads or writes. Held as a raw allocation, because the plugin writes it while
/// this side holds the owner.
struct Staged {
    ticket: cajeta_abi::Ticket,
    bytes: *mut [u8],
    download: bool,
}

// SAFETY: `bytes` is an allocation that only this value owns.
unsafe impl Send for Staged {}

impl Staged {
    /// After a fault of the plugin nothing says that it does not use the bytes: they stay.
    fn abandon(self, error: DeviceError) -> DeviceError {
        if error.code == Code::INTERNAL {
            std::mem::forget(self);
        }
        error
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` and freed here only.
        drop(unsafe { Box::from_raw(self.bytes) });
    }
}

impl Queue {
    pub(super) fn new(device: &Device, handle: Handle) -> Queue {
        let number = NEXT_QUEUE.fetch_add(1, Ordering::Relaxed);
        Queue {
            device: device.clone(),
            handle,
            number,
            last: cajeta_abi::Ticket::NONE,
            staged: VecDeque::new(),
            _not_sync: PhantomData,
        }
    }

    /// The device it is of.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies `bytes` to the start of `to` and waits.
    ///
    /// # Errors
    /// [`Code::INVALID`] when they do not fit; whatever the plugin answers.
    pub fn upload(&mut self, to: &BufferSpan, bytes: &[u8]) -> Result<(), DeviceError> {
        self.upload_all(&[(to, bytes)])
    }

    /// Copies several pieces and waits for all of them: one wait for many small pieces.
    ///
    /// # Errors
    /// As [`Queue::upload`]; pieces before the one that failed are copied.
    pub fn upload_all(&mut self, pieces: &[(&BufferSpan, &[u8])]) -> Result<(), DeviceError> {
        let mut started = None;
        let mut failed = None;
        for (to, bytes) in pieces {
            match self.start_upload(to, bytes.as_ptr(), bytes.len()) {
                Ok(ticket) => started = ticket.or(started),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        // Even after a failure: the plugin reads the caller's bytes until the ticket is complete.
        let waited = started.map_or(Ok(()), |ticket| self.wait(ticket));
        failed.map_or(waited, Err)
    }

    /// Copies `bytes` to the start of `to` in queue order, without waiting. The queue owns the bytes
    /// until the copy is complete.
    ///
    /// # Errors
    /// As [`Queue::upload`].
    pub fn upload_owned(&mut self, to: &BufferSpan, bytes: Vec<u8>) -> Result<Ticket, DeviceError> {
        let bytes = Box::into_raw(bytes.into_boxed_slice());
        let mut staged = Staged { ticket: self.last, bytes, download: false };
        match self.start_upload(to, bytes.cast_const().cast(), bytes.len()) {
            Ok(None) => {}
            Ok(Some(ticket)) => {
                staged.ticket = ticket.value;
                self.staged.push_back(staged);
            }
            Err(error) => return Err(staged.abandon(error)),
        }
        Ok(self.now())
    }

    /// Copies the first bytes of `from` and waits.
    ///
    /// # Errors
    /// [`Code::INVALID`] when `from` has fewer; whatever the plugin answers.
    pub fn download(&mut self, from: &BufferSpan, bytes: &mut [u8]) -> Result<(), DeviceError> {
        match self.start_download(from, bytes.as_mut_ptr(), bytes.len())? {
            Some(ticket) => self.wait(ticket),
            None => Ok(()),
        }
    }

    /// Starts copying all of `from` to the host, in queue order. [`Queue::take`] hands the bytes out
    /// once the ticket is complete.
    ///
    /// # Errors
    /// As [`Queue::download`].
    pub fn download_later(&mut self, from: &BufferSpan) -> Result<Ticket, DeviceError> {
        let len = usize::try_from(from.len())
            .ok()
            .filter(|&len| len > 0)
            .ok_or_else(|| self.error("download", Code::INVALID, "no bytes, or more than fit here"))?;
        let bytes = Box::into_raw(vec![0u8; len].into_boxed_slice());
        let mut staged = Staged { ticket: self.last, bytes, download: true };
        if let Err(error) = self.start_download(from, bytes.cast(), len) {
            return Err(staged.abandon(error));
        }
        staged.ticket = self.last;
        self.staged.push_back(staged);
        Ok(self.now())
    }

    /// Waits for a [`Queue::download_later`] and hands its bytes out, once.
    ///
    /// # Errors
    /// [`Code::INVALID`] when the ticket is of nothing this queue still holds.
    pub fn take(&mut self, ticket: Ticket) -> Result<Vec<u8>, DeviceError> {
        self.wait(ticket)?;
        let held = self.staged.iter().position(|staged| staged.download && staged.ticket == ticket.value);
        let Some(staged) = held.and_then(|index| self.staged.remove(index)) else {
            return Err(self.error("download", Code::INVALID, "the ticket is of no download held here"));
        };
        // SAFETY: the allocation is live until `staged` drops, and the copy into it is complete, so
        // nothing else touches it.
        Ok(unsafe { &*staged.bytes }.to_vec())
    }

    /// Queues a list.
    ///
    /// # Errors
    /// [`Code::INVALID`] for a list of another device; whatever the plugin answers.
    pub fn submit(&mut self, list: &List) -> Result<Ticket, DeviceError> {
        self.start_list(list, 0)
    }

    /// Queues a list and records when each launch runs: see [`Queue::spans`].
    ///
    /// # Errors
    /// As [`Queue::submit`].
    pub fn submit_with_spans(&mut self, list: &List) -> Result<Ticket, DeviceError> {
        self.start_list(list, SUBMIT_SPANS)
    }

    /// Waits up to `timeout` for a ticket; whether it is complete.
    ///
    /// # Errors
    /// [`Code::LOST`], whose sentence names the row if known; [`Code::INVALID`] for another queue's ticket.
    pub fn poll(&mut self, ticket: Ticket, timeout: Duration) -> Result<bool, DeviceError> {
        self.own("poll", ticket)?;
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let code = self.device.answer("poll", |table, device, error| {
            (table.poll)(device, self.handle, ticket.value, nanoseconds, error)
        })?;
        if code == Code::PENDING {
            return Ok(false);
        }
        self.release(ticket.value);
        Ok(true)
    }

    /// Waits for a ticket.
    ///
    /// # Errors
    /// As [`Queue::poll`].
    pub fn wait(&mut self, ticket: Ticket) -> Result<(), DeviceError> {
        let mut early = 0u32;
        loop {
            let begun = Instant::now();
            if self.poll(ticket, WAIT_SLICE)? {
                return Ok(());
            }
            // A plugin that answers "pending" at once must not make this thread spin.
            if begun.elapsed() < WAIT_SLICE / 2 {
                early = early.saturating_add(1);
                std::thread::sleep(Duration::from_micros(u64::from(early.min(20)) * 50));
            }
        }
    }

    /// Waits for everything queued so far.
    ///
    /// # Errors
    /// As [`Queue::poll`].
    pub fn finish(&mut self) -> Result<(), DeviceError> {
        if self.last == cajeta_abi::Ticket::NONE { Ok(()) } else { self.wait(self.now()) }
    }

    /// Time between the completion of two tickets, on the device's clock.
    ///
    /// # Errors
    /// [`Code::UNSUPPORTED`] without [`cajeta_abi::Capability::EVENT_CLOCK`].
    pub fn elapsed(&mut self, from: Ticket, to: Ticket) -> Result<Duration, DeviceError> {
        self.own("elapsed", from)?;
        self.own("elapsed", to)?;
        let mut nanoseconds = 0;
        self.device.ask("elapsed", |table, device, error| {
            (table.elapsed)(device, self.handle, from.value, to.value, &mut nanoseconds, error)
        })?;
        Ok(Duration::from_nanos(nanoseconds))
    }

    /// When each launch of a completed [`Queue::submit_with_spans`] ran.
    ///
    /// # Errors
    /// [`Code::UNSUPPORTED`] without [`cajeta_abi::Capability::SPANS`].
    pub fn spans(&mut self, ticket: Ticket, launches: usize) -> Result<Vec<Span>, DeviceError> {
        self.own("spans", ticket)?;
        let mut spans = vec![Span::default(); launches.min(SPANS_MAX)];
        let mut count = 0;
        self.device.ask("spans", |table, device, error| {
            let (out, capacity) = (spans.as_mut_ptr(), spans.len());
            // SAFETY: `spans` is writable for its length, which is the capacity passed.
            unsafe { (table.spans)(device, self.handle, ticket.value, out, capacity, &mut count, error) }
        })?;
        spans.truncate(count);
        Ok(spans)
    }

    fn now(&self) -> Ticket {
        Ticket { queue: self.number, value: self.last }
    }

    /// Copies complete up to `ticket` give their bytes back; finished downloads wait to be taken.
    fn release(&mut self, ticket: cajeta_abi::Ticket) {
        self.staged.retain(|staged| staged.download || staged.ticket > ticket);
    }

    /// `None` when there is nothing to copy.
    fn start_upload(
        &mut self,
        to: &BufferSpan,
        src: *const u8,
        len: usize,
    ) -> Result<Option<Ticket>, DeviceError> {
        self.check_copy("upload", to, len)?;
        if to.buffer().is_imported() {
            return Err(self.error("upload", Code::INVALID, "imported pages may not be written"));
        }
        if len == 0 {
            return Ok(None);
        }
        let mut ticket = cajeta_abi::Ticket::NONE;
        let (buffer, offset) = (to.buffer().handle(), to.offset());
        self.device.ask("upload", |table, device, error| {
            // SAFETY: `src` is readable for `len` bytes until the ticket is complete: callers either
            // wait for it before their borrow ends, or give the allocation to `staged`.
            unsafe {
                (table.upload)(device, self.handle, buffer, offset, src, len as u64, &mut ticket, error)
            }
        })?;
        self.advance("upload", ticket).map(Some)
    }

    /// `None` when there is nothing to copy.
    fn start_download(
        &mut self,
        from: &BufferSpan,
        dst: *mut u8,
        len: usize,
    ) -> Result<Option<Ticket>, DeviceError> {
        self.check_copy("download", from, len)?;
        if len == 0 {
            return Ok(None);
        }
        let mut ticket = cajeta_abi::Ticket::NONE;
        let (buffer, offset) = (from.buffer().handle(), from.offset());
        self.device.ask("download", |table, device, error| {
            // SAFETY: `dst` is writable for `len` bytes and touched by nothing else until the ticket
            // is complete: callers wait for it before their borrow ends, or give it to `staged`.
            unsafe {
                (table.download)(device, self.handle, buffer, offset, dst, len as u64, &mut ticket, error)
            }
        })?;
        self.advance("download", ticket).map(Some)
    }

    fn start_list(&mut self, list: &List, flags: u32) -> Result<Ticket, DeviceError> {
        if !list.device().is_same(&self.device) {
            return Err(self.error("submit", Code::INVALID, "the list is of another device"));
        }
        let mut ticket = cajeta_abi::Ticket::NONE;
        self.device.ask("submit", |table, device, error| {
            (table.submit)(device, self.handle, list.handle(), flags, &mut ticket, error)
        })?;
        self.advance("submit", ticket)
    }

    fn check_copy(&self, operation: &'static str, span: &BufferSpan, len: usize) -> Result<(), DeviceError> {
        if len as u64 > span.len() {
            let text = format!("{len} bytes do not fit a span of {}", span.len());
            return Err(self.error(operation, Code::INVALID, text));
        }
        if !span.buffer().device().is_same(&self.device) {
            return Err(self.error(operation, Code::INVALID, "the buffer is of another device"));
        }
        Ok(())
    }

    /// Tickets rise: completion of one must mean completion of those before it.
    fn advance(
        &mut self,
        operation: &'static str,
        ticket: cajeta_abi::Ticket,
    ) -> Result<Ticket, DeviceError> {
        if ticket <= self.last {
            let text = format!("ticket {} after ticket {}", ticket.0, self.last.0);
            return Err(self.error(operation, Code::INTERNAL, text));
        }
        self.last = ticket;
        Ok(self.now())
    }

    fn own(&self, operation: &'static str, ticket: Ticket) -> Result<(), DeviceError> {
        if ticket.queue == self.number {
            return Ok(());
        }
        Err(self.error(operation, Code::INVALID, "the ticket is of another queue"))
    }

    fn error(&self, operation: &'static str, code: Code, text: impl Into<String>) -> DeviceError {
        self.device.error(operation, code, text)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let code = (self.device.table().queue_free)(self.device.handle(), self.handle);
        if code != Code::OK {
            tracing::warn!(backend = %self.device.backend().id(), code = code.name(), "freeing a queue failed");
            // Nothing says that its copies have ended, so their bytes must stay.
            std::mem::forget(std::mem::take(&mut self.staged));
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Queue({:#x} of {:?}, ticket {})", self.handle.0, self.device, self.last.0)
    }
}
