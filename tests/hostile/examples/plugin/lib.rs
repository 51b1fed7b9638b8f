//! A plugin written against the bare ABI that misbehaves as its own file name says.
//!
//! `libhonest__zebra.so` is a working backend of the id `zebra`; `libpanics-in-probe__zebra.so`
//! panics in its probe. Everything not named works, so each behaviour is tested alone.

mod behaviour;
mod rows;
mod kernels;
mod backend;
mod device;

use abi_stable::StableAbi;
use abi_stable::prefix_type::PrefixTypeTrait;
use abi_stable::std_types::{ROption, RSlice, RStr};
use cajeta_abi::{BACKEND_1, BackendV1, DEVICE_1, DeviceV1, Identity, Interface, Root, RootRef};

use behaviour::{file_id, is};

#[abi_stable::export_root_module]
fn root() -> RootRef {
    if is("panics-in-its-root") {
        panic!("no root today");
    }
    Root { identity, interface, shutdown }.leak_into_prefix()
}

extern "C" fn identity() -> Identity {
    let id = if is("lies-about-its-id") { "somebody-else" } else { file_id() };
    let tables: &[RStr<'static>] = if is("lies-about-its-tables") {
        &[RStr::from_str(BACKEND_1), RStr::from_str(DEVICE_1), RStr::from_str("device/9")]
    } else {
        &[RStr::from_str(BACKEND_1), RStr::from_str(DEVICE_1)]
    };
    let tables = Box::leak(tables.to_vec().into_boxed_slice());
    let version: &'static [u8] = if is("says-bad-utf8") { b"\xff\xfe" } else { b"1.0.0" };
    Identity {
        id: RStr::from_str(id),
        // SAFETY: static bytes; that they may not be UTF-8 is the point.
        version: unsafe { RStr::from_raw_parts(version.as_ptr(), version.len()) },
        description: RStr::from_str("misbehaves on purpose"),
        tables: RSlice::from_slice(tables),
        license: RStr::from_str("MIT"),
    }
}

/// A `backend/1` of another time: one function too many.
#[repr(C)]
#[derive(StableAbi)]
struct OtherBackend {
    table: BackendV1,
    more: extern "C" fn() -> u32,
}

extern "C" fn more() -> u32 {
    1
}

extern "C" fn interface(id: RStr<'_>) -> Interface {
    static ZEROS: [usize; 32] = [0; 32];
    let id = id.as_str();
    let whole = match id {
        BACKEND_1 => Interface::of::<BackendV1>(&backend::TABLE),
        DEVICE_1 => Interface::of::<DeviceV1>(&device::TABLE),
        _ => return Interface::absent(),
    };
    if id == BACKEND_1 && is("has-another-layout") {
        return Interface::of(Box::leak(Box::new(OtherBackend { table: backend::TABLE, more })));
    }
    if id == DEVICE_1 && is("has-no-layout") {
        return Interface { layout: ROption::RNone, ..whole };
    }
    if id == DEVICE_1 && is("has-no-device-table") {
        return Interface::absent();
    }
    if id == DEVICE_1 && is("has-null-functions") {
        return Interface { table: ZEROS.as_ptr().cast(), ..whole };
    }
    if id == DEVICE_1 && is("is-misaligned") {
        return Interface { table: ZEROS.as_ptr().cast::<u8>().wrapping_add(1).cast(), ..whole };
    }
    whole
}

extern "C" fn shutdown() {
    if is("aborts-in-shutdown") {
        std::process::abort();
    }
}
