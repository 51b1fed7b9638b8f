//! From a driver result to a fault: what has no room, what is gone for good, and what is a mistake of ours.

use std::ffi::CStr;

use cajeta_plugin_api::{Answer, Fault};
use cudarc::driver::sys::{CUresult, cuGetErrorName, cuGetErrorString};

/// Answers for a driver call; `what` says what it was to do.
pub(crate) fn check(result: CUresult, what: &str) -> Answer<()> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let text = format!("{what}: {}", describe(result));
    Err(match result {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => Fault::out_of_memory(text),
        CUresult::CUDA_ERROR_NO_DEVICE | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE => Fault::unavailable(text),
        _ if is_loss(result) => Fault::lost(text),
        _ => Fault::internal(text),
    })
}

/// Results after which a context answers nothing else any more.
fn is_loss(result: CUresult) -> bool {
    matches!(
        result,
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_CONTAINED
            | CUresult::CUDA_ERROR_EXTERNAL_DEVICE
            | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUresult::CUDA_ERROR_SYSTEM_NOT_READY
            | CUresult::CUDA_ERROR_DEINITIALIZED
            | CUresult::CUDA_ERROR_UNKNOWN
    )
}

/// The driver's own words for a result.
fn describe(result: CUresult) -> String {
    let text = |ask: unsafe fn(CUresult, *mut *const std::ffi::c_char) -> CUresult| {
        let mut text = std::ptr::null();
        // SAFETY: the driver is loaded (there is a result), and writes a pointer to a static string or null.
        let asked = unsafe { ask(result, &raw mut text) };
        if asked != CUresult::CUDA_SUCCESS || text.is_null() {
            return None;
        }
        // SAFETY: a static string of the driver, ended by a zero.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    let name = text(cuGetErrorName).unwrap_or_else(|| format!("result {}", result as u32));
    match text(cuGetErrorString) {
        Some(meaning) => format!("{name} ({meaning})"),
        None => name,
    }
}
