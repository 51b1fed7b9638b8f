//! What an exported backend answers at the boundary: layouts, refusals, caught panics.

use std::sync::Arc;
use std::time::Duration;

use cajeta_plugin_api::abi::*;
use cajeta_plugin_api::{__export, Answer, Backend, BufferSpan, Device, Fault, Poll, Work};

struct Toy;
struct ToyDevice;

impl Backend for Toy {
    type Device = ToyDevice;
    const ID: &'static str = "toy";
    const VERSION: &'static str = "1";
    const DESCRIPTION: &'static str = "answers little, panics on geometry";
    const LICENSE: &'static str = "MIT";

    fn probe(_host: &HostInfo<'_>) -> Answer<()> {
        panic!("probe {}", "panics")
    }
    fn devices() -> Answer<Vec<DeviceFacts>> {
        Ok(vec![DeviceFacts::NONE; 3])
    }
    fn supports(_device: u32, capability: Capability) -> Answer<bool> {
        Ok(capability == Capability::HOST_VISIBLE)
    }
    fn rows() -> &'static [Row] {
        &[]
    }
    fn layouts() -> &'static [Layout] {
        &[]
    }
    fn manifest(_row: usize, _target: &str) -> Answer<Manifest> {
        Ok(Manifest::none())
    }
    fn geometry(_row: usize, _facts: &DeviceFacts, _problem: &Problem, _scalars: &[u8]) -> Answer<Geometry> {
        Ok(Geometry::default())
    }
    fn layout_bytes(_layout: LayoutId, _shapes: &[Shape]) -> Answer<u64> {
        Err(Fault::unsupported("no layouts"))
    }
}

impl Device for ToyDevice {
    type Buffer = u64;
    type Queue = u64;
    type List = ();

    fn open(index: u32) -> Answer<ToyDevice> {
        if index == 2 { Err(Fault::unavailable("busy")) } else { Ok(ToyDevice) }
    }
    fn mem_info(&self) -> Answer<MemInfo> {
        Err(Fault::lost("unplugged"))
    }
    fn alloc(&self, bytes: u64, _kind: MemoryKind, _poison: bool) -> Answer<u64> {
        Ok(bytes)
    }
    unsafe fn import(&self, _base: *mut u8, len: u64, _access: Access) -> Answer<u64> {
        Ok(len)
    }
    fn map(&self, _buffer: &u64) -> Answer<*mut u8> {
        Err(Fault::unsupported("not addressable"))
    }
    fn buffer_len(buffer: &u64) -> u64 {
        *buffer
    }
    fn queue(&self) -> Answer<u64> {
        Ok(0)
    }
    unsafe fn upload(&self, queue: &mut u64, _to: BufferSpan<u64>, _src: *const u8) -> Answer<Ticket> {
        *queue += 1;
        Ok(Ticket(*queue))
    }
    unsafe fn download(&self, queue: &mut u64, _from: BufferSpan<u64>, _dst: *mut u8) -> Answer<Ticket> {
        *queue += 1;
        Ok(Ticket(*queue))
    }
    fn list(&self, _launches: Vec<Work<u64>>) -> Answer<()> {
        Ok(())
    }
    fn submit(&self, queue: &mut u64, _list: &Arc<()>, _spans: bool) -> Answer<Ticket> {
        *queue += 1;
        Ok(Ticket(*queue))
    }
    fn poll(&self, queue: &mut u64, ticket: Ticket, _timeout: Duration) -> Answer<Poll> {
        Ok(if ticket.0 <= *queue { Poll::Ready } else { Poll::Pending })
    }
    fn elapsed(&self, _queue: &mut u64, _from: Ticket, _to: Ticket) -> Answer<u64> {
        Err(Fault::unsupported("no clock"))
    }
    fn spans(&self, _queue: &mut u64, _ticket: Ticket) -> Answer<Vec<Span>> {
        Ok(Vec::new())
    }
}

cajeta_plugin_api::export_backend!(Toy);

fn tables() -> (&'static BackendV1, &'static DeviceV1) {
    let backend = __export::backend_interface::<Toy>(BACKEND_1.into());
    let device = __export::backend_interface::<Toy>(DEVICE_1.into());
    assert!(backend.layout.is_some() && device.layout.is_some());
    // SAFETY: the ids name exactly these table types, and tables are static.
    unsafe { (&*backend.table.cast::<BackendV1>(), &*device.table.cast::<DeviceV1>()) }
}

#[test]
fn an_unknown_interface_is_absent() {
    let interface = __export::backend_interface::<Toy>("device/99".into());
    assert!(interface.table.is_null() && interface.layout.is_none());
}

#[test]
fn a_panic_is_an_internal_error_with_its_message() {
    let (backend, _) = tables();
    let host = HostInfo { host_version: "test".into(), plugin_dir: "/".into(), probing: 1 };
    let mut error = ErrorBuf::new();
    assert_eq!((backend.probe)(&host, &mut error), Code::INTERNAL);
    assert!(error.as_str().contains("probe panics"), "{}", error.as_str());
}

#[test]
fn a_short_facts_array_is_not_overrun() {
    let (backend, _) = tables();
    let mut out = [DeviceFacts::NONE; 1];
    let mut count = 0;
    // SAFETY: `out` has the one element that `capacity` says.
    let code = unsafe { (backend.devices)(out.as_mut_ptr(), 1, &mut count, &mut ErrorBuf::new()) };
    assert_eq!((code, count), (Code::OK, 3));
}

#[test]
fn handles_spans_and_loss_are_checked() {
    let (_, device) = tables();
    let mut error = ErrorBuf::new();
    let (mut one, mut two) = (Handle::NONE, Handle::NONE);
    assert_eq!((device.open)(0, &mut one, &mut error), Code::OK);
    assert_eq!((device.open)(1, &mut two, &mut error), Code::OK);
    assert_eq!((device.open)(2, &mut two.clone(), &mut error), Code::UNAVAILABLE);
    assert_eq!((device.open)(3, &mut two.clone(), &mut error), Code::INVALID);
    let mut buffer = Handle::NONE;
    assert_eq!((device.alloc)(one, 0, MemoryKind::DEVICE, 0, &mut buffer, &mut error), Code::INVALID);
    assert_eq!((device.alloc)(one, 64, MemoryKind::DEVICE, 0, &mut buffer, &mut error), Code::OK);
    // A buffer of one device is no buffer of another.
    assert_eq!((device.free)(two, buffer), Code::INVALID);
    let mut queue = Handle::NONE;
    assert_eq!((device.queue)(one, &mut queue, &mut error), Code::OK);
    let mut ticket = Ticket::NONE;
    let bytes = [0u8; 64];
    for (offset, len, expected) in
        [(0, 64, Code::OK), (1, 64, Code::INVALID), (64, 0, Code::OK), (u64::MAX, 2, Code::INVALID)]
    {
        // SAFETY: `bytes` outlives the call and holds every length that is in range.
        let code = unsafe {
            (device.upload)(one, queue, buffer, offset, bytes.as_ptr(), len, &mut ticket, &mut error)
        };
        assert_eq!(code, expected, "offset {offset}, {len} bytes");
    }
    assert_eq!((device.poll)(one, queue, Ticket(99), 0, &mut error), Code::PENDING);
    // Loss is sticky; releasing still works.
    let mut info = MemInfo::default();
    assert_eq!((device.mem_info)(one, &mut info, &mut error), Code::LOST);
    assert_eq!((device.alloc)(one, 8, MemoryKind::DEVICE, 0, &mut buffer.clone(), &mut error), Code::LOST);
    assert!(error.as_str().contains("unplugged"));
    assert_eq!((device.free)(one, buffer), Code::OK);
    assert_eq!((device.free)(one, buffer), Code::INVALID);
    assert_eq!((device.queue_free)(one, queue), Code::OK);
    assert_eq!((device.close)(one), Code::OK);
    assert_eq!((device.close)(one), Code::INVALID);
}
