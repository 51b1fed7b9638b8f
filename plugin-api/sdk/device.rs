//! The half of a backend that executes: memory, queues, lists.

use std::sync::Arc;
use std::time::Duration;

use cajeta_abi::{Access, MemInfo, MemoryKind, Problem, Span, Ticket};

use crate::fault::Answer;

/// Part of a live buffer. `offset + len` is within it.
pub struct BufferSpan<B> {
    /// The buffer; holding the span keeps it alive.
    pub buffer: Arc<B>,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl<B> Clone for BufferSpan<B> {
    fn clone(&self) -> BufferSpan<B> {
        BufferSpan { buffer: Arc::clone(&self.buffer), offset: self.offset, len: self.len }
    }
}

/// One launch of a list, with its handles resolved. Checked before a device
/// sees it: the row is in range; there is one argument per `Row::args`, absent
/// only where every operand it serves is optional; offsets are aligned as the
/// row says and spans (with their readable padding) lie within their buffers;
/// written spans overlap others only as the row's `alias` allows; scratch and
/// semaphores are as large as `geometry` says; the scalars have the length of
/// the steps' blocks. The device still checks that each span is as long as its
/// operand needs at this problem.
pub struct Work<B> {
    /// Index in `rows()`.
    pub row: usize,
    /// Parts of the reduction; 1 for none.
    pub split: u32,
    /// Size of the row's `problem_step`.
    pub problem: Problem,
    /// One per `Row::args`.
    pub args: Vec<Option<BufferSpan<B>>>,
    /// The steps' scalar blocks.
    pub scalars: Vec<u8>,
    /// Scratch, if `geometry` asks for any.
    pub scratch: Option<BufferSpan<B>>,
    /// Semaphores, if `geometry` asks for any.
    pub semaphores: Option<BufferSpan<B>>,
}

/// What `poll` found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Poll {
    /// The ticket is complete.
    Ready,
    /// Not yet.
    Pending,
}

/// A device of a backend; the safe form of [`cajeta_abi::DeviceV1`], where each
/// call's contract is written. Dropping it releases the device; every queue,
/// list and buffer of it is dropped before.
pub trait Device: Send + Sync + Sized + 'static {
    /// Memory of this device. Dropping it releases the memory.
    type Buffer: Send + Sync;
    /// A timeline of work. Dropping it waits for what runs.
    type Queue: Send;
    /// A prepared launch list.
    type List: Send + Sync;

    /// Opens device `index` of `Backend::devices`.
    fn open(index: u32) -> Answer<Self>;

    /// Memory now.
    fn mem_info(&self) -> Answer<MemInfo>;

    /// Allocates `bytes` (> 0); filled with 0xFF when `poison`.
    fn alloc(&self, bytes: u64, kind: MemoryKind, poison: bool) -> Answer<Self::Buffer>;

    /// Makes host pages a buffer without copying.
    ///
    /// # Safety
    /// - `base` is page-aligned and `len` bytes from it stay mapped, readable
    ///   and (where `access` says so) writable, while the buffer lives.
    unsafe fn import(&self, base: *mut u8, len: u64, access: Access) -> Answer<Self::Buffer>;

    /// Host address of a buffer, valid while it lives.
    fn map(&self, buffer: &Self::Buffer) -> Answer<*mut u8>;

    /// Bytes of a buffer.
    fn buffer_len(buffer: &Self::Buffer) -> u64;

    /// Makes a queue.
    fn queue(&self) -> Answer<Self::Queue>;

    /// Copies `to.len` host bytes into a buffer, in queue order.
    ///
    /// # Safety
    /// - `src` is readable for `to.len` bytes until the ticket is complete.
    unsafe fn upload(
        &self,
        queue: &mut Self::Queue,
        to: BufferSpan<Self::Buffer>,
        src: *const u8,
    ) -> Answer<Ticket>;

    /// Copies `from.len` buffer bytes to the host, in queue order.
    ///
    /// # Safety
    /// - `dst` is writable for `from.len` bytes, and not otherwise used, until
    ///   the ticket is complete.
    unsafe fn download(
        &self,
        queue: &mut Self::Queue,
        from: BufferSpan<Self::Buffer>,
        dst: *mut u8,
    ) -> Answer<Ticket>;

    /// Prepares a list. Launches run in order.
    fn list(&self, launches: Vec<Work<Self::Buffer>>) -> Answer<Self::List>;

    /// Queues a list; the device keeps the `Arc` until its ticket is complete.
    fn submit(&self, queue: &mut Self::Queue, list: &Arc<Self::List>, spans: bool) -> Answer<Ticket>;

    /// Waits up to `timeout` for a ticket of this queue.
    fn poll(&self, queue: &mut Self::Queue, ticket: Ticket, timeout: Duration) -> Answer<Poll>;

    /// Nanoseconds between two completed tickets on the device clock.
    fn elapsed(&self, queue: &mut Self::Queue, from: Ticket, to: Ticket) -> Answer<u64>;

    /// Spans of a completed submission that asked for them.
    fn spans(&self, queue: &mut Self::Queue, ticket: Ticket) -> Answer<Vec<Span>>;
}
