//! The device: this machine's own cores and memory.

mod memory;
mod pool;
mod list;
mod queue;

pub use list::List;
pub use memory::Buffer;
pub use queue::Queue;

use std::sync::Arc;
use std::time::Duration;

use cajeta_plugin_api::abi::{Access, MemInfo, MemoryKind, Span, Ticket};
use cajeta_plugin_api::{Answer, BufferSpan, Device, Fault, Poll, Work};

use crate::machine;
use pool::Pool;
use queue::Command;

/// The open device: a pool of threads.
pub struct CpuDevice {
    pool: Arc<Pool>,
}

impl Device for CpuDevice {
    type Buffer = Buffer;
    type Queue = Queue;
    type List = List;

    fn open(index: u32) -> Answer<CpuDevice> {
        if index != 0 {
            return Err(Fault::invalid(format!("device {index} does not exist: the CPU is device 0")));
        }
        Ok(CpuDevice { pool: Arc::new(Pool::new(machine::threads())?) })
    }

    fn mem_info(&self) -> Answer<MemInfo> {
        Ok(machine::memory())
    }

    fn alloc(&self, bytes: u64, _kind: MemoryKind, poison: bool) -> Answer<Buffer> {
        Buffer::alloc(bytes, poison)
    }

    unsafe fn import(&self, base: *mut u8, len: u64, access: Access) -> Answer<Buffer> {
        // SAFETY: the caller promises what `Buffer::import` asks for.
        unsafe { Buffer::import(base, len, access) }
    }

    fn map(&self, buffer: &Buffer) -> Answer<*mut u8> {
        Ok(buffer.start())
    }

    fn buffer_len(buffer: &Buffer) -> u64 {
        buffer.len()
    }

    fn queue(&self) -> Answer<Queue> {
        Ok(Queue::new(Arc::clone(&self.pool)))
    }

    unsafe fn upload(&self, queue: &mut Queue, to: BufferSpan<Buffer>, src: *const u8) -> Answer<Ticket> {
        if !to.buffer.writable() {
            return Err(Fault::invalid("an upload into pages that were imported for reading only"));
        }
        // SAFETY: the caller keeps `src` valid until the ticket is complete.
        Ok(unsafe { queue.push(Command::Upload { to, src }) })
    }

    unsafe fn download(&self, queue: &mut Queue, from: BufferSpan<Buffer>, dst: *mut u8) -> Answer<Ticket> {
        // SAFETY: the caller keeps `dst` valid until the ticket is complete.
        Ok(unsafe { queue.push(Command::Download { from, dst }) })
    }

    fn list(&self, launches: Vec<Work<Buffer>>) -> Answer<List> {
        List::new(launches)
    }

    fn submit(&self, queue: &mut Queue, list: &Arc<List>, spans: bool) -> Answer<Ticket> {
        // SAFETY: a list names no host memory but the buffers it keeps alive.
        Ok(unsafe { queue.push(Command::Run { list: Arc::clone(list), spans }) })
    }

    fn poll(&self, queue: &mut Queue, ticket: Ticket, timeout: Duration) -> Answer<Poll> {
        queue.poll(ticket, timeout)
    }

    fn elapsed(&self, queue: &mut Queue, from: Ticket, to: Ticket) -> Answer<u64> {
        queue.elapsed(from, to)
    }

    fn spans(&self, queue: &mut Queue, ticket: Ticket) -> Answer<Vec<Span>> {
        queue.spans(ticket)
    }
}
