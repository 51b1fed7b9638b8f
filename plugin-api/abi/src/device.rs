//! `device/1`: what a plugin executes.

use abi_stable::StableAbi;
use abi_stable::std_types::RSlice;

use crate::code::Code;
use crate::facts::MemInfo;
use crate::ids::{Access, Handle, MemoryKind, Ticket};
use crate::launch::{Launch, Span};
use crate::text::ErrorBuf;

/// The table of `device/1`.
///
/// Lifecycle: `open` → (`alloc` | `import` | `queue` | `list`)* → … → `close`.
/// `close` frees what is left and waits for what runs.
///
/// Threads: calls that take a queue are externally synchronised per queue; the
/// rest may come from any thread. Handles belong to the device that made them;
/// a stale, foreign or zero handle is [`Code::INVALID`], never undefined.
///
/// Order: work on one queue completes in submission order. Buffers and lists
/// may be freed while work that names them runs; they go after the last ticket.
///
/// Loss: once a call answers [`Code::LOST`] all do, but `free`, `list_free`,
/// `queue_free` and `close`, which release what they can.
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
pub struct DeviceV1 {
    /// Opens device `index` of the last `devices` answer.
    pub open: extern "C" fn(index: u32, out: &mut Handle, error: &mut ErrorBuf) -> Code,
    /// Waits for all work and releases everything.
    pub close: extern "C" fn(device: Handle) -> Code,
    /// Memory now.
    pub mem_info: extern "C" fn(device: Handle, out: &mut MemInfo, error: &mut ErrorBuf) -> Code,
    /// Allocates `bytes` (> 0). `poison` 1: filled with 0xFF bytes (NaN in every
    /// float format), so that a kernel reading what nothing wrote shows.
    pub alloc: extern "C" fn(
        device: Handle,
        bytes: u64,
        kind: MemoryKind,
        poison: u32,
        out: &mut Handle,
        error: &mut ErrorBuf,
    ) -> Code,
    /// Releases a buffer after the last ticket that names it.
    pub free: extern "C" fn(device: Handle, buffer: Handle) -> Code,
    /// Makes host pages a buffer without copying.
    ///
    /// # Safety
    /// - `base` is page-aligned and `len` bytes from it stay mapped, and
    ///   readable (writable where `access` says so), until the buffer is freed
    ///   and the last ticket naming it is complete.
    pub import: unsafe extern "C" fn(
        device: Handle,
        base: *mut u8,
        len: u64,
        access: Access,
        out: &mut Handle,
        error: &mut ErrorBuf,
    ) -> Code,
    /// The host address of a buffer, valid until it is freed. Coherent at
    /// ticket boundaries.
    pub map: extern "C" fn(device: Handle, buffer: Handle, out: &mut *mut u8, error: &mut ErrorBuf) -> Code,
    /// Makes a queue.
    pub queue: extern "C" fn(device: Handle, out: &mut Handle, error: &mut ErrorBuf) -> Code,
    /// Waits for the queue and releases it.
    pub queue_free: extern "C" fn(device: Handle, queue: Handle) -> Code,
    /// Copies host bytes into a buffer, in queue order.
    ///
    /// # Safety
    /// - `src` is readable for `len` bytes until the ticket is complete.
    pub upload: unsafe extern "C" fn(
        device: Handle,
        queue: Handle,
        buffer: Handle,
        offset: u64,
        src: *const u8,
        len: u64,
        ticket: &mut Ticket,
        error: &mut ErrorBuf,
    ) -> Code,
    /// Copies buffer bytes to the host, in queue order.
    ///
    /// # Safety
    /// - `dst` is writable for `len` bytes until the ticket is complete, and
    ///   nothing else reads or writes it before.
    pub download: unsafe extern "C" fn(
        device: Handle,
        queue: Handle,
        buffer: Handle,
        offset: u64,
        dst: *mut u8,
        len: u64,
        ticket: &mut Ticket,
        error: &mut ErrorBuf,
    ) -> Code,
    /// Prepares a launch list: checked once, submitted many times. Launches run
    /// in order, each seeing what earlier ones wrote.
    pub list: extern "C" fn(
        device: Handle,
        launches: RSlice<'_, Launch<'_>>,
        out: &mut Handle,
        error: &mut ErrorBuf,
    ) -> Code,
    /// Releases a list after the last ticket that runs it.
    pub list_free: extern "C" fn(device: Handle, list: Handle) -> Code,
    /// Queues a list. `flags` bit 0: record spans.
    pub submit: extern "C" fn(
        device: Handle,
        queue: Handle,
        list: Handle,
        flags: u32,
        ticket: &mut Ticket,
        error: &mut ErrorBuf,
    ) -> Code,
    /// Waits up to `timeout_ns` (0: does not wait) for a ticket. [`Code::OK`],
    /// [`Code::PENDING`] or [`Code::LOST`], whose sentence names the row if
    /// known. A backend without [`crate::Capability::ASYNC`] computes in here,
    /// on the caller's thread.
    pub poll: extern "C" fn(
        device: Handle,
        queue: Handle,
        ticket: Ticket,
        timeout_ns: u64,
        error: &mut ErrorBuf,
    ) -> Code,
    /// Nanoseconds between the completion of two tickets, on the device clock.
    pub elapsed: extern "C" fn(
        device: Handle,
        queue: Handle,
        from: Ticket,
        to: Ticket,
        out: &mut u64,
        error: &mut ErrorBuf,
    ) -> Code,
    /// Spans of a completed submission that asked for them.
    ///
    /// # Safety
    /// - `out` is writable for `capacity` elements.
    pub spans: unsafe extern "C" fn(
        device: Handle,
        queue: Handle,
        ticket: Ticket,
        out: *mut Span,
        capacity: usize,
        count: &mut usize,
        error: &mut ErrorBuf,
    ) -> Code,
}

/// `submit` flag: record spans.
pub const SUBMIT_SPANS: u32 = 1;
