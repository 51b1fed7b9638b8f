//! `backend/1` of an exported backend.

use cajeta_abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{
    BackendV1, Capability, Code, DeviceFacts, ErrorBuf, Geometry, HostInfo, Layout, LayoutId, Manifest,
    Problem, Row, Shape,
};

use crate::fault::{Answer, Fault};
use crate::guard;
use crate::instance::Exported;
use crate::launch_check::check_scalars;

pub(crate) fn table<B: Exported>() -> BackendV1 {
    BackendV1 {
        probe: probe::<B>,
        devices: devices::<B>,
        supports: supports::<B>,
        rows: rows::<B>,
        layouts: layouts::<B>,
        manifest: manifest::<B>,
        geometry: geometry::<B>,
        layout_bytes: layout_bytes::<B>,
    }
}

/// The row's index, refused when the registry has no such row.
pub(crate) fn row_index<B: Exported>(row: u32) -> Answer<usize> {
    let index = row as usize;
    let rows = B::rows().len();
    if index < rows {
        Ok(index)
    } else {
        Err(Fault::invalid(format!("row {row} does not exist: this backend has {rows} rows")))
    }
}

extern "C" fn probe<B: Exported>(host: &HostInfo<'_>, error: &mut ErrorBuf) -> Code {
    guard::code(error, || B::probe(host))
}

unsafe extern "C" fn devices<B: Exported>(
    out: *mut DeviceFacts,
    capacity: usize,
    count: &mut usize,
    error: &mut ErrorBuf,
) -> Code {
    guard::code(error, || {
        let facts = B::devices()?;
        *count = facts.len();
        let written = facts.len().min(capacity);
        if written > 0 {
            // SAFETY: the caller promises `capacity` writable elements at `out`
            // and `written` is at most that; `facts` is a separate allocation.
            unsafe { std::ptr::copy_nonoverlapping(facts.as_ptr(), out, written) };
        }
        Ok(())
    })
}

extern "C" fn supports<B: Exported>(device: u32, capability: Capability, error: &mut ErrorBuf) -> Code {
    guard::code(error, || {
        if B::supports(device, capability)? {
            Ok(())
        } else {
            Err(Fault::unsupported(format!("capability {} is not there", capability.0)))
        }
    })
}

extern "C" fn rows<B: Exported>() -> RSlice<'static, Row> {
    RSlice::from_slice(guard::answer(|| Ok(B::rows())).unwrap_or(&[]))
}

extern "C" fn layouts<B: Exported>() -> RSlice<'static, Layout> {
    RSlice::from_slice(guard::answer(|| Ok(B::layouts())).unwrap_or(&[]))
}

extern "C" fn manifest<B: Exported>(
    row: u32,
    target: RStr<'_>,
    out: &mut Manifest,
    error: &mut ErrorBuf,
) -> Code {
    guard::code(error, || {
        *out = B::manifest(row_index::<B>(row)?, target.as_str())?;
        Ok(())
    })
}

extern "C" fn geometry<B: Exported>(
    row: u32,
    facts: &DeviceFacts,
    problem: &Problem,
    scalars: RSlice<'_, u8>,
    out: &mut Geometry,
    error: &mut ErrorBuf,
) -> Code {
    guard::code(error, || {
        let row = row_index::<B>(row)?;
        check_scalars(&B::rows()[row], scalars.as_slice())?;
        *out = B::geometry(row, facts, problem, scalars.as_slice())?;
        Ok(())
    })
}

extern "C" fn layout_bytes<B: Exported>(
    layout: LayoutId,
    shapes: RSlice<'_, Shape>,
    out: &mut u64,
    error: &mut ErrorBuf,
) -> Code {
    guard::code(error, || {
        *out = B::layout_bytes(layout, shapes.as_slice())?;
        Ok(())
    })
}
