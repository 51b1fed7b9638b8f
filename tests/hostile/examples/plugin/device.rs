//! `device/1` of the misbehaving plugin: buffers are vectors, copies happen at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use abi_stable::std_types::RSlice;
use cajeta_abi::{
    Access, BufferArg, Code, DeviceV1, ErrorBuf, Handle, Launch, MemInfo, MemoryKind, Span, Ticket,
};

use crate::behaviour::{hang, is};
use crate::kernels;

pub(crate) static TABLE: DeviceV1 = DeviceV1 {
    open,
    close,
    mem_info,
    alloc,
    free,
    import,
    map,
    queue,
    queue_free,
    upload,
    download,
    list,
    list_free,
    submit,
    poll,
    elapsed,
    spans,
};

struct State {
    next: u64,
    ticket: u64,
    buffers: BTreeMap<u64, Vec<u8>>,
    /// Row, source, destination.
    lists: BTreeMap<u64, Vec<(u32, BufferArg, BufferArg)>>,
}

static STATE: Mutex<State> =
    Mutex::new(State { next: 1, ticket: 0, buffers: BTreeMap::new(), lists: BTreeMap::new() });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn ticket(&mut self) -> Ticket {
        if is("gives-the-same-ticket") {
            return Ticket(7);
        }
        self.ticket += 1;
        Ticket(self.ticket)
    }
}

extern "C" fn open(_index: u32, out: &mut Handle, error: &mut ErrorBuf) -> Code {
    if is("opens-nothing") {
        return Code::OK;
    }
    if is("is-lost-when-opened") {
        error.set("fell off the bus");
        return Code::LOST;
    }
    *out = Handle(1);
    Code::OK
}

extern "C" fn close(_device: Handle) -> Code {
    Code::OK
}

extern "C" fn mem_info(_device: Handle, out: &mut MemInfo, _error: &mut ErrorBuf) -> Code {
    *out = MemInfo { total: 1 << 30, free: 1 << 30, largest_alloc: 1 << 30 };
    Code::OK
}

extern "C" fn alloc(
    _device: Handle,
    bytes: u64,
    _kind: MemoryKind,
    poison: u32,
    out: &mut Handle,
    error: &mut ErrorBuf,
) -> Code {
    if bytes > 1 << 30 {
        error.set("1 GiB is all there is");
        return Code::OUT_OF_MEMORY;
    }
    if is("allocates-nothing") {
        return Code::OK;
    }
    let mut state = state();
    *out = Handle(state.name());
    let fill = if poison == 1 { 0xff } else { 0 };
    state.buffers.insert(out.0, vec![fill; bytes as usize]);
    Code::OK
}

extern "C" fn free(_device: Handle, buffer: Handle) -> Code {
    if state().buffers.remove(&buffer.0).is_some() { Code::OK } else { Code::INVALID }
}

unsafe extern "C" fn import(
    _device: Handle,
    base: *mut u8,
    len: u64,
    _access: Access,
    out: &mut Handle,
    _error: &mut ErrorBuf,
) -> Code {
    let mut state = state();
    *out = Handle(state.name());
    // SAFETY: readable for `len` bytes by the contract of the call.
    let pages = unsafe { std::slice::from_raw_parts(base, len as usize) };
    state.buffers.insert(out.0, pages.to_vec());
    Code::OK
}

extern "C" fn map(_device: Handle, _buffer: Handle, out: &mut *mut u8, error: &mut ErrorBuf) -> Code {
    if is("maps-nowhere") {
        *out = std::ptr::null_mut();
        return Code::OK;
    }
    error.set("not host-visible");
    Code::UNSUPPORTED
}

extern "C" fn queue(_device: Handle, out: &mut Handle, _error: &mut ErrorBuf) -> Code {
    *out = Handle(state().name());
    Code::OK
}

extern "C" fn queue_free(_device: Handle, _queue: Handle) -> Code {
    Code::OK
}

unsafe extern "C" fn upload(
    _device: Handle,
    _queue: Handle,
    buffer: Handle,
    offset: u64,
    src: *const u8,
    len: u64,
    ticket: &mut Ticket,
    error: &mut ErrorBuf,
) -> Code {
    if is("is-lost-on-upload") {
        error.set("fell off the bus\nin row 3");
        return Code::LOST;
    }
    let mut state = state();
    // SAFETY: readable for `len` bytes by the contract of the call.
    let bytes = unsafe { std::slice::from_raw_parts(src, len as usize) };
    let start = offset as usize;
    match state.buffers.get_mut(&buffer.0).and_then(|held| held.get_mut(start..start + bytes.len())) {
        Some(held) => held.copy_from_slice(bytes),
        None => return Code::INVALID,
    }
    *ticket = state.ticket();
    Code::OK
}

unsafe extern "C" fn download(
    _device: Handle,
    _queue: Handle,
    buffer: Handle,
    offset: u64,
    dst: *mut u8,
    len: u64,
    ticket: &mut Ticket,
    _error: &mut ErrorBuf,
) -> Code {
    let mut state = state();
    let start = offset as usize;
    match state.buffers.get(&buffer.0).and_then(|held| held.get(start..start + len as usize)) {
        // SAFETY: writable for `len` bytes by the contract of the call.
        Some(held) => unsafe { dst.copy_from_nonoverlapping(held.as_ptr(), held.len()) },
        None => return Code::INVALID,
    }
    *ticket = state.ticket();
    Code::OK
}

extern "C" fn list(
    _device: Handle,
    launches: RSlice<'_, Launch<'_>>,
    out: &mut Handle,
    _error: &mut ErrorBuf,
) -> Code {
    let mut state = state();
    *out = Handle(state.name());
    let copies = launches.iter().map(|launch| (launch.row, launch.args[0], launch.args[1])).collect();
    state.lists.insert(out.0, copies);
    Code::OK
}

extern "C" fn list_free(_device: Handle, list: Handle) -> Code {
    if state().lists.remove(&list.0).is_some() { Code::OK } else { Code::INVALID }
}

extern "C" fn submit(
    _device: Handle,
    _queue: Handle,
    list: Handle,
    _flags: u32,
    ticket: &mut Ticket,
    _error: &mut ErrorBuf,
) -> Code {
    let mut state = state();
    for (row, from, to) in state.lists.get(&list.0).cloned().unwrap_or_default() {
        kernels::run(row);
        let part = |arg: BufferArg| arg.offset as usize..(arg.offset + arg.len) as usize;
        let Some(bytes) = state.buffers.get(&from.buffer.0).map(|held| held[part(from)].to_vec()) else {
            return Code::INVALID;
        };
        if let Some(held) = state.buffers.get_mut(&to.buffer.0) {
            // The first rows of more, as the op has it.
            let to = part(to);
            held[to.clone()].copy_from_slice(&bytes[..to.len()]);
            if is("computes-something-else") {
                held[to][17] ^= 0x40;
            }
        }
    }
    *ticket = state.ticket();
    Code::OK
}

extern "C" fn poll(
    _device: Handle,
    _queue: Handle,
    _ticket: Ticket,
    _timeout_ns: u64,
    error: &mut ErrorBuf,
) -> Code {
    if is("hangs-in-poll") {
        hang();
    }
    if is("is-never-done") {
        return Code::PENDING;
    }
    if is("is-lost-while-waiting") {
        error.set("fell off the bus");
        return Code::LOST;
    }
    Code::OK
}

extern "C" fn elapsed(
    _device: Handle,
    _queue: Handle,
    _from: Ticket,
    _to: Ticket,
    _out: &mut u64,
    _error: &mut ErrorBuf,
) -> Code {
    if is("answers-pending-to-everything") { Code::PENDING } else { Code::UNSUPPORTED }
}

unsafe extern "C" fn spans(
    _device: Handle,
    _queue: Handle,
    _ticket: Ticket,
    _out: *mut Span,
    _capacity: usize,
    count: &mut usize,
    _error: &mut ErrorBuf,
) -> Code {
    if is("counts-spans-it-lacks") {
        *count = usize::MAX;
        return Code::OK;
    }
    Code::UNSUPPORTED
}
