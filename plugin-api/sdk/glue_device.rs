//! `device/1` of an exported backend.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cajeta_abi::abi_stable::std_types::RSlice;
use cajeta_abi::device::SUBMIT_SPANS;
use cajeta_abi::{Access, Code, DeviceV1, ErrorBuf, Handle, Launch, MemInfo, MemoryKind, Span, Ticket};

use crate::backend::Backend;
use crate::device::{BufferSpan, Device, Poll};
use crate::fault::{Answer, Fault};
use crate::guard;
use crate::instance::{Exported, Open};
use crate::launch_check;

pub(crate) fn table<B: Exported>() -> DeviceV1 {
    DeviceV1 {
        open: open::<B>,
        close: close::<B>,
        mem_info: mem_info::<B>,
        alloc: alloc::<B>,
        free: free::<B>,
        import: import::<B>,
        map: map::<B>,
        queue: queue::<B>,
        queue_free: queue_free::<B>,
        upload: upload::<B>,
        download: download::<B>,
        list: list::<B>,
        list_free: list_free::<B>,
        submit: submit::<B>,
        poll: poll::<B>,
        elapsed: elapsed::<B>,
        spans: spans::<B>,
    }
}

type Opened<B> = Arc<Open<<B as Backend>::Device>>;

/// Runs a call on a live, not lost device.
fn on_device<B: Exported>(
    device: Handle,
    error: &mut ErrorBuf,
    call: impl FnOnce(&Opened<B>, &B::Device) -> Answer<()>,
) -> Code {
    guard::code(error, || {
        let open = B::instance().device(device)?;
        open.unless_lost(|device| call(&open, device))
    })
}

/// Runs a call on a live queue of a live device.
fn on_queue<B: Exported>(
    device: Handle,
    queue: Handle,
    error: &mut ErrorBuf,
    call: impl FnOnce(&Opened<B>, &B::Device, &mut <B::Device as Device>::Queue) -> Answer<()>,
) -> Code {
    on_device::<B>(device, error, |open, on| {
        let queue = open.queues.get(queue)?;
        call(open, on, &mut lock(&queue))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in an earlier call was reported then; the queue goes on.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn open<B: Exported>(index: u32, out: &mut Handle, error: &mut ErrorBuf) -> Code {
    guard::code(error, || {
        let facts = B::devices()?;
        let count = facts.len();
        let facts = *facts.get(index as usize).ok_or_else(|| {
            Fault::invalid(format!("device {index} does not exist: this backend has {count}"))
        })?;
        let device = B::Device::open(index)?;
        *out = B::instance().devices().insert(Open::new(device, facts))?;
        Ok(())
    })
}

extern "C" fn close<B: Exported>(device: Handle) -> Code {
    guard::code(&mut ErrorBuf::new(), || {
        // Dropping the last reference drops queues, lists, buffers, device.
        drop(B::instance().devices().remove(device)?);
        Ok(())
    })
}

extern "C" fn mem_info<B: Exported>(device: Handle, out: &mut MemInfo, error: &mut ErrorBuf) -> Code {
    on_device::<B>(device, error, |_, on| {
        *out = on.mem_info()?;
        Ok(())
    })
}

extern "C" fn alloc<B: Exported>(
    device: Handle,
    bytes: u64,
    kind: MemoryKind,
    poison: u32,
    out: &mut Handle,
    error: &mut ErrorBuf,
) -> Code {
    on_device::<B>(device, error, |open, on| {
        if bytes == 0 {
            return Err(Fault::invalid("an allocation of 0 bytes"));
        }
        *out = open.buffers.insert(Arc::new(on.alloc(bytes, kind, poison != 0)?))?;
        Ok(())
    })
}

extern "C" fn free<B: Exported>(device: Handle, buffer: Handle) -> Code {
    guard::code(&mut ErrorBuf::new(), || {
        drop(B::instance().device(device)?.buffers.remove(buffer)?);
        Ok(())
    })
}

unsafe extern "C" fn import<B: Exported>(
    device: Handle,
    base: *mut u8,
    len: u64,
    access: Access,
    out: &mut Handle,
    error: &mut ErrorBuf,
) -> Code {
    on_device::<B>(device, error, |open, on| {
        if base.is_null() || len == 0 {
            return Err(Fault::invalid("an import of no bytes"));
        }
        // SAFETY: the caller promises mapped, page-aligned pages for as long as
        // the buffer lives; that is what `Device::import` asks for.
        let buffer = unsafe { on.import(base, len, access)? };
        *out = open.buffers.insert(Arc::new(buffer))?;
        Ok(())
    })
}

extern "C" fn map<B: Exported>(
    device: Handle,
    buffer: Handle,
    out: &mut *mut u8,
    error: &mut ErrorBuf,
) -> Code {
    on_device::<B>(device, error, |open, on| {
        *out = on.map(&**open.buffers.get(buffer)?)?;
        Ok(())
    })
}

extern "C" fn queue<B: Exported>(device: Handle, out: &mut Handle, error: &mut ErrorBuf) -> Code {
    on_device::<B>(device, error, |open, on| {
        *out = open.queues.insert(Mutex::new(on.queue()?))?;
        Ok(())
    })
}

extern "C" fn queue_free<B: Exported>(device: Handle, queue: Handle) -> Code {
    guard::code(&mut ErrorBuf::new(), || {
        drop(B::instance().device(device)?.queues.remove(queue)?);
        Ok(())
    })
}

/// The span of a transfer, held against its buffer.
fn span<B: Exported>(
    open: &Opened<B>,
    buffer: Handle,
    offset: u64,
    len: u64,
) -> Answer<BufferSpan<<B::Device as Device>::Buffer>> {
    let buffer = Arc::clone(&*open.buffers.get(buffer)?);
    let bytes = B::Device::buffer_len(&buffer);
    if offset > bytes || len > bytes - offset {
        return Err(Fault::invalid(format!("{len} bytes at byte {offset} do not fit the buffer's {bytes}")));
    }
    Ok(BufferSpan { buffer, offset, len })
}

unsafe extern "C" fn upload<B: Exported>(
    device: Handle,
    queue: Handle,
    buffer: Handle,
    offset: u64,
    src: *const u8,
    len: u64,
    ticket: &mut Ticket,
    error: &mut ErrorBuf,
) -> Code {
    on_queue::<B>(device, queue, error, |open, on, queue| {
        let to = span::<B>(open, buffer, offset, len)?;
        // SAFETY: the caller promises `len` readable bytes at `src` until the
        // ticket is complete, and `to.len` is `len`.
        *ticket = unsafe { on.upload(queue, to, src)? };
        Ok(())
    })
}

unsafe extern "C" fn download<B: Exported>(
    device: Handle,
    queue: Handle,
    buffer: Handle,
    offset: u64,
    dst: *mut u8,
    len: u64,
    ticket: &mut Ticket,
    error: &mut ErrorBuf,
) -> Code {
    on_queue::<B>(device, queue, error, |open, on, queue| {
        let from = span::<B>(open, buffer, offset, len)?;
        // SAFETY: the caller promises `len` writable bytes at `dst`, its own
        // until the ticket is complete, and `from.len` is `len`.
        *ticket = unsafe { on.download(queue, from, dst)? };
        Ok(())
    })
}

extern "C" fn list<B: Exported>(
    device: Handle,
    launches: RSlice<'_, Launch<'_>>,
    out: &mut Handle,
    error: &mut ErrorBuf,
) -> Code {
    on_device::<B>(device, error, |open, on| {
        let work: Answer<Vec<_>> =
            launches.iter().map(|launch| launch_check::check::<B>(open, launch)).collect();
        *out = open.lists.insert(Arc::new(on.list(work?)?))?;
        Ok(())
    })
}

extern "C" fn list_free<B: Exported>(device: Handle, list: Handle) -> Code {
    guard::code(&mut ErrorBuf::new(), || {
        drop(B::instance().device(device)?.lists.remove(list)?);
        Ok(())
    })
}

extern "C" fn submit<B: Exported>(
    device: Handle,
    queue: Handle,
    list: Handle,
    flags: u32,
    ticket: &mut Ticket,
    error: &mut ErrorBuf,
) -> Code {
    on_queue::<B>(device, queue, error, |open, on, queue| {
        let list = open.lists.get(list)?;
        *ticket = on.submit(queue, &list, flags & SUBMIT_SPANS != 0)?;
        Ok(())
    })
}

extern "C" fn poll<B: Exported>(
    device: Handle,
    queue: Handle,
    ticket: Ticket,
    timeout_ns: u64,
    error: &mut ErrorBuf,
) -> Code {
    let mut pending = false;
    let code = on_queue::<B>(device, queue, error, |_, on, queue| {
        let found = on.poll(queue, ticket, Duration::from_nanos(timeout_ns))?;
        pending = found == Poll::Pending;
        Ok(())
    });
    if code == Code::OK && pending { Code::PENDING } else { code }
}

extern "C" fn elapsed<B: Exported>(
    device: Handle,
    queue: Handle,
    from: Ticket,
    to: Ticket,
    out: &mut u64,
    error: &mut ErrorBuf,
) -> Code {
    on_queue::<B>(device, queue, error, |_, on, queue| {
        *out = on.elapsed(queue, from, to)?;
        Ok(())
    })
}

unsafe extern "C" fn spans<B: Exported>(
    device: Handle,
    queue: Handle,
    ticket: Ticket,
    out: *mut Span,
    capacity: usize,
    count: &mut usize,
    error: &mut ErrorBuf,
) -> Code {
    on_queue::<B>(device, queue, error, |_, on, queue| {
        let spans = on.spans(queue, ticket)?;
        *count = spans.len();
        let written = spans.len().min(capacity);
        if written > 0 {
            // SAFETY: the caller promises `capacity` writable elements at `out`
            // and `written` is at most that; `spans` is a separate allocation.
            unsafe { std::ptr::copy_nonoverlapping(spans.as_ptr(), out, written) };
        }
        Ok(())
    })
}
