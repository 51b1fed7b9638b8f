//! What executes: memory, queues and lists of one device.

mod memory;
mod staging;
mod code;
mod list;
mod timeline;
mod queue;

pub use list::List;
pub use memory::Buffer;
pub use queue::Queue;

use std::sync::Arc;
use std::time::Duration;

use cajeta_plugin_api::abi::{Access, MemInfo, MemoryKind, Span, Ticket};
use cajeta_plugin_api::{Answer, BufferSpan, Device, Fault, Poll, Work};

use crate::driver::{Context, Stream};
use crate::facts;
use code::LoadedCode;
use staging::Staging;

/// An open device.
pub struct CudaDevice {
    context: Arc<Context>,
    code: LoadedCode,
    staging: Arc<Staging>,
    /// For fills that no queue orders.
    fills: Stream,
}

impl Device for CudaDevice {
    type Buffer = Buffer;
    type Queue = Queue;
    type List = List;

    fn open(index: u32) -> Answer<CudaDevice> {
        let target = facts::target(index)?;
        let context = Context::of(index)?;
        Ok(CudaDevice {
            code: LoadedCode::load(&context, &target)?,
            staging: Arc::new(Staging::new(&context)),
            fills: Stream::new(&context)?,
            context,
        })
    }

    fn mem_info(&self) -> Answer<MemInfo> {
        let (free, total) = self.context.memory()?;
        Ok(MemInfo { total, free, largest_alloc: free })
    }

    fn alloc(&self, bytes: u64, kind: MemoryKind, poison: bool) -> Answer<Buffer> {
        Buffer::alloc(&self.context, &self.fills, bytes, kind, poison)
    }

    unsafe fn import(&self, _base: *mut u8, _len: u64, _access: Access) -> Answer<Buffer> {
        Err(Fault::unsupported(
            "host pages are not imported: kernels read weights at the device's own bandwidth",
        ))
    }

    fn map(&self, buffer: &Buffer) -> Answer<*mut u8> {
        buffer.host_address().ok_or_else(|| {
            Fault::unsupported("device memory is not addressable by the host; allocate a staging buffer")
        })
    }

    fn buffer_len(buffer: &Buffer) -> u64 {
        buffer.len()
    }

    fn queue(&self) -> Answer<Queue> {
        Queue::new(&self.context, &self.staging)
    }

    unsafe fn upload(&self, queue: &mut Queue, to: BufferSpan<Buffer>, src: *const u8) -> Answer<Ticket> {
        // SAFETY: the caller's promise is the same.
        unsafe { queue.upload(to, src) }
    }

    unsafe fn download(&self, queue: &mut Queue, from: BufferSpan<Buffer>, dst: *mut u8) -> Answer<Ticket> {
        // SAFETY: the caller's promise is the same.
        unsafe { queue.download(from, dst) }
    }

    fn list(&self, launches: Vec<Work<Buffer>>) -> Answer<List> {
        List::prepare(&self.context, &self.code, launches)
    }

    fn submit(&self, queue: &mut Queue, list: &Arc<List>, spans: bool) -> Answer<Ticket> {
        queue.submit(list, spans)
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
