//! `backend/1` of the misbehaving plugin.

use abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{
    BackendV1, Capability, Code, DeviceFacts, ErrorBuf, Fact, Geometry, HostInfo, Layout, LayoutId,
    LayoutKind, Manifest, Problem, Row, Shape, Text,
};

use crate::behaviour::{hang, is};
use crate::rows;

pub(crate) static TABLE: BackendV1 =
    BackendV1 { probe, devices, supports, rows: all_rows, layouts, manifest, geometry, layout_bytes };

extern "C" fn probe(host: &HostInfo<'_>, error: &mut ErrorBuf) -> Code {
    if is("panics-in-probe") {
        panic!("the card is on fire");
    }
    if is("hangs-in-probe") || (is("hangs-in-the-host") && host.probing == 0) {
        eprintln!("waiting for the card");
        hang();
    }
    if is("exits-in-probe") {
        std::process::exit(0);
    }
    if is("faults-in-probe") {
        let nowhere = std::hint::black_box(8 as *mut u32);
        // SAFETY: none; the fault is the point.
        unsafe { nowhere.write_volatile(1) };
    }
    if is("leaves-a-process-behind") {
        let _ = std::process::Command::new("sleep").arg("60").spawn();
    }
    if is("prints-rubbish") {
        println!("{{\"usable\":{{\"devices\":[],\"kernel\":\"\"}}}}\n\x1b[2Jrubbish");
    }
    if is("has-no-driver") {
        error.set("libnodriver.so.1 not found");
        return Code::UNAVAILABLE;
    }
    if is("answers-an-unknown-code") {
        error.set("\x1b[31mred");
        return Code(0xdead);
    }
    Code::OK
}

unsafe extern "C" fn devices(
    out: *mut DeviceFacts,
    capacity: usize,
    count: &mut usize,
    _error: &mut ErrorBuf,
) -> Code {
    let mut facts = DeviceFacts { name: Text::new("Pretend card \x1b[5m"), ..DeviceFacts::NONE };
    facts.set(Fact::SOFTWARE, u64::from(is("is-software")));
    *count = if is("lists-no-device") { 0 } else { 1 };
    if is("lists-a-million-devices") {
        *count = 1_000_000;
    }
    if capacity > 0 {
        // SAFETY: writable for `capacity` elements, which is not zero.
        unsafe { out.write(facts) };
    }
    Code::OK
}

extern "C" fn supports(_device: u32, _capability: Capability, _error: &mut ErrorBuf) -> Code {
    Code::UNSUPPORTED
}

extern "C" fn all_rows() -> RSlice<'static, Row> {
    rows::rows()
}

extern "C" fn layouts() -> RSlice<'static, Layout> {
    static LONELY: [Layout; 1] = [Layout {
        name: RStr::from_str("lonely"),
        kind: LayoutKind::ACTIVATION,
        sources: 1,
        formats: RSlice::EMPTY,
        align: 1,
    }];
    if is("reads-a-layout-nobody-makes") { RSlice::from_slice(&LONELY) } else { RSlice::EMPTY }
}

extern "C" fn manifest(_row: u32, _target: RStr<'_>, out: &mut Manifest, error: &mut ErrorBuf) -> Code {
    if is("has-a-broken-kernel-manifest") {
        // SAFETY: none; the host must not look there.
        out.feasible_blocks = unsafe { RSlice::from_raw_parts(std::ptr::dangling(), usize::MAX) };
        return Code::OK;
    }
    error.set("nothing is compiled");
    Code::UNSUPPORTED
}

extern "C" fn geometry(
    _row: u32,
    _facts: &DeviceFacts,
    _problem: &Problem,
    _scalars: RSlice<'_, u8>,
    out: &mut Geometry,
    _error: &mut ErrorBuf,
) -> Code {
    if is("panics-in-geometry") {
        panic!("too many dimensions");
    }
    out.grid = if is("has-a-grid-of-nothing") { [1, 0, 1] } else { [1; 3] };
    out.block = if is("has-a-block-of-everything") { [u32::MAX; 3] } else { [1; 3] };
    out.split_min = if is("splits-backwards") { 9 } else { 1 };
    out.split_max = 1;
    if is("wants-all-memory") {
        out.scratch_bytes = u64::MAX;
    }
    Code::OK
}

extern "C" fn layout_bytes(
    _layout: LayoutId,
    _shapes: RSlice<'_, Shape>,
    _out: &mut u64,
    _error: &mut ErrorBuf,
) -> Code {
    Code::INVALID
}
