//! What executes: memory, queues and lists over one working thread.
//!
//! All work of a device, whatever its queue, runs on one thread in the order in
//! which it was queued. That is a legal device, and the plainest one.

mod memory;
mod timeline;
mod list;
mod worker;

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use cajeta_plugin_api::abi::{Access, MemInfo, MemoryKind, Span, Ticket};
use cajeta_plugin_api::{Answer, BufferSpan, Device, Fault, Poll, Work};

use crate::settings::{Defect, Settings};
use list::PreparedList;
use memory::{Memory, Pool};
use timeline::Timeline;
use worker::{Command, HostBytes, Task};

/// The one device.
pub struct ReferenceDevice {
    settings: Settings,
    pool: Arc<Pool>,
    /// `None` only while the device is being dropped.
    commands: Option<Sender<Command>>,
    worker: Option<JoinHandle<()>>,
}

/// A queue: its own timeline, the shared thread.
pub struct ReferenceQueue {
    timeline: Arc<Timeline>,
    last: u64,
}

impl ReferenceDevice {
    /// A device with these habits, whatever the environment says.
    ///
    /// # Errors
    /// The host does not give it a thread.
    pub fn with(settings: Settings) -> Answer<ReferenceDevice> {
        let (commands, inbox) = mpsc::channel();
        let habits = settings.clone();
        let worker = std::thread::Builder::new()
            .name("cajeta-reference".to_owned())
            .spawn(move || worker::work(&inbox, &habits))
            .map_err(|error| Fault::unavailable(format!("the working thread did not start: {error}")))?;
        let pool = Arc::new(Pool::new(settings.memory));
        Ok(ReferenceDevice { settings, pool, commands: Some(commands), worker: Some(worker) })
    }

    fn send(&self, queue: &mut ReferenceQueue, task: Task) -> Answer<Ticket> {
        queue.timeline.check_alive()?;
        let ticket = queue.last + 1;
        let command = Command { timeline: Arc::clone(&queue.timeline), ticket, task };
        let sent = self.commands.as_ref().map(|commands| commands.send(command));
        if !matches!(sent, Some(Ok(()))) {
            return Err(Fault::internal("the working thread has ended"));
        }
        queue.last = ticket;
        Ok(Ticket(ticket))
    }
}

impl Device for ReferenceDevice {
    type Buffer = Memory;
    type Queue = ReferenceQueue;
    type List = PreparedList;

    fn open(index: u32) -> Answer<ReferenceDevice> {
        if index != 0 {
            return Err(Fault::invalid(format!("device {index} does not exist: there is one, 0")));
        }
        ReferenceDevice::with(Settings::read()?)
    }

    fn mem_info(&self) -> Answer<MemInfo> {
        let free = self.pool.free();
        let largest = self.settings.largest_allocation.unwrap_or(u64::MAX);
        Ok(MemInfo { total: self.settings.memory, free, largest_alloc: free.min(largest) })
    }

    fn alloc(&self, bytes: u64, _kind: MemoryKind, _poison: bool) -> Answer<Memory> {
        if let Some(largest) = self.settings.largest_allocation
            && bytes > largest
        {
            return Err(Fault::out_of_memory(format!(
                "{bytes} bytes asked for, the largest allocation is {largest}"
            )));
        }
        // Memory nothing wrote is poisoned whether asked or not.
        let fill = if self.settings.defect == Some(Defect::IgnoresPoison) { 0x00 } else { 0xFF };
        Memory::alloc(&self.pool, bytes, fill)
    }

    unsafe fn import(&self, base: *mut u8, len: u64, _access: Access) -> Answer<Memory> {
        if !self.settings.import {
            return Err(Fault::unsupported(
                "host pages are not imported; CAJETA_REFERENCE_IMPORT=1 allows it",
            ));
        }
        // SAFETY: the caller promises `len` mapped bytes at `base` while the buffer lives.
        unsafe { Memory::import(base, len) }
    }

    fn map(&self, buffer: &Memory) -> Answer<*mut u8> {
        if !self.settings.map {
            return Err(Fault::unsupported(
                "device memory is not addressable; CAJETA_REFERENCE_MAP=1 makes it so",
            ));
        }
        Ok(buffer.address())
    }

    fn buffer_len(buffer: &Memory) -> u64 {
        buffer.len()
    }

    fn queue(&self) -> Answer<ReferenceQueue> {
        Ok(ReferenceQueue { timeline: Arc::new(Timeline::new()), last: 0 })
    }

    unsafe fn upload(
        &self,
        queue: &mut ReferenceQueue,
        to: BufferSpan<Memory>,
        src: *const u8,
    ) -> Answer<Ticket> {
        self.send(queue, Task::Upload { to, src: HostBytes(src.cast_mut()) })
    }

    unsafe fn download(
        &self,
        queue: &mut ReferenceQueue,
        from: BufferSpan<Memory>,
        dst: *mut u8,
    ) -> Answer<Ticket> {
        self.send(queue, Task::Download { from, dst: HostBytes(dst) })
    }

    fn list(&self, launches: Vec<Work<Memory>>) -> Answer<PreparedList> {
        PreparedList::new(launches, self.settings.defect)
    }

    fn submit(&self, queue: &mut ReferenceQueue, list: &Arc<PreparedList>, spans: bool) -> Answer<Ticket> {
        self.send(queue, Task::Run { list: Arc::clone(list), spans })
    }

    fn poll(&self, queue: &mut ReferenceQueue, ticket: Ticket, timeout: Duration) -> Answer<Poll> {
        if ticket.0 > queue.last {
            return Err(Fault::invalid(format!(
                "ticket {} was not given out; the last is {}",
                ticket.0, queue.last
            )));
        }
        queue.timeline.wait(ticket.0, timeout)
    }

    fn elapsed(&self, queue: &mut ReferenceQueue, from: Ticket, to: Ticket) -> Answer<u64> {
        queue.timeline.elapsed(from.0, to.0)
    }

    fn spans(&self, queue: &mut ReferenceQueue, ticket: Ticket) -> Answer<Vec<Span>> {
        queue.timeline.spans(ticket.0)
    }
}

impl Drop for ReferenceDevice {
    fn drop(&mut self) {
        // Without senders the thread finishes what is queued and ends.
        self.commands = None;
        if let Some(worker) = self.worker.take() {
            // A panicking worker has told its queues already.
            let _ = worker.join();
        }
    }
}

impl Drop for ReferenceQueue {
    fn drop(&mut self) {
        self.timeline.drain(self.last);
    }
}

#[cfg(test)]
mod tests;
