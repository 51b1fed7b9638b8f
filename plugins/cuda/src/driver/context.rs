//! A device's primary context, shared by everything of it, and the questions a device answers.

use std::ffi::{CStr, c_char, c_int};
use std::sync::{Arc, Mutex, PoisonError};

use cajeta_plugin_api::Answer;
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUresult, CUuuid, cuCtxSetCurrent, cuDeviceGetAttribute,
    cuDeviceGetName, cuDeviceGetUuid_v2, cuDevicePrimaryCtxRetain, cuDeviceTotalMem_v2, cuMemGetInfo_v2,
};

use super::error::check;
use super::library::Driver;

/// The primary context of a device. Retained once and kept until the process ends: a context costs hundreds of
/// milliseconds to make, and other users of CUDA in the process share it.
pub(crate) struct Context {
    handle: CUcontext,
    multiprocessors: u64,
    shared_opt_in: u64,
}

// SAFETY: a context handle may be used from any thread that makes it current, which every call here does first.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

static RETAINED: Mutex<Vec<(u32, Arc<Context>)>> = Mutex::new(Vec::new());

impl Context {
    /// The context of device `index`, made on first use.
    pub(crate) fn of(index: u32) -> Answer<Arc<Context>> {
        let device = Driver::get()?.device(index)?;
        let mut retained = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, context)) = retained.iter().find(|(other, _)| *other == index) {
            return Ok(Arc::clone(context));
        }
        let mut handle: CUcontext = std::ptr::null_mut();
        // SAFETY: the device is one the driver gave out; it writes a handle.
        check(unsafe { cuDevicePrimaryCtxRetain(&raw mut handle, device) }, "making a context")?;
        let answer = |attribute| device_attribute(device, attribute);
        let context = Arc::new(Context {
            handle,
            multiprocessors: answer(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
                .unwrap_or(1),
            shared_opt_in: answer(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
                .unwrap_or(48 << 10),
        });
        retained.push((index, Arc::clone(&context)));
        Ok(context)
    }

    /// The context of device `index`, if something made it already.
    pub(crate) fn existing(index: u32) -> Option<Arc<Context>> {
        let retained = RETAINED.lock().unwrap_or_else(PoisonError::into_inner);
        retained.iter().find(|(other, _)| *other == index).map(|(_, context)| Arc::clone(context))
    }

    /// Multiprocessors of its device.
    pub(crate) fn multiprocessors(&self) -> u64 {
        self.multiprocessors
    }

    /// Shared bytes a block may have at most, when its kernel asks.
    pub(crate) fn shared_opt_in(&self) -> u64 {
        self.shared_opt_in
    }

    /// Makes the context the calling thread's current one.
    pub(crate) fn bind(&self) -> Answer<()> {
        // SAFETY: the handle was retained and is never released.
        check(unsafe { cuCtxSetCurrent(self.handle) }, "making the context current")
    }

    /// (free, total) bytes of device memory.
    pub(crate) fn memory(&self) -> Answer<(u64, u64)> {
        self.bind()?;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: a context is current; the driver writes two sizes.
        check(unsafe { cuMemGetInfo_v2(&raw mut free, &raw mut total) }, "asking for free memory")?;
        Ok((free as u64, total as u64))
    }
}

/// An attribute of a device; `None` where the driver does not answer it or answers less than 0.
pub(crate) fn device_attribute(device: CUdevice, attribute: CUdevice_attribute) -> Option<u64> {
    let mut value: c_int = 0;
    // SAFETY: the device is one the driver gave out; it writes one integer.
    let asked = unsafe { cuDeviceGetAttribute(&raw mut value, attribute, device) };
    (asked == CUresult::CUDA_SUCCESS).then(|| u64::try_from(value).ok()).flatten()
}

/// The marketing name of a device.
pub(crate) fn device_name(device: CUdevice) -> String {
    let mut name = [0 as c_char; 128];
    // SAFETY: the driver writes at most this many bytes, ended by a zero.
    let asked = unsafe { cuDeviceGetName(name.as_mut_ptr(), name.len() as c_int, device) };
    if asked != CUresult::CUDA_SUCCESS {
        return "unnamed CUDA device".to_owned();
    }
    // SAFETY: written by the driver and ended by a zero within the array.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
}

/// The identity of the physical device (or of its slice), as `nvidia-smi` spells it; empty when unknown.
pub(crate) fn device_uuid(device: CUdevice) -> String {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: the driver writes 16 bytes.
    if unsafe { cuDeviceGetUuid_v2(&raw mut uuid, device) } != CUresult::CUDA_SUCCESS {
        return String::new();
    }
    let hexadecimal: String = uuid.bytes.iter().map(|&byte| format!("{:02x}", byte as u8)).collect();
    let part = |from: usize, to: usize| hexadecimal.get(from..to).unwrap_or_default();
    format!("GPU-{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

/// Installed bytes of a device.
pub(crate) fn device_memory(device: CUdevice) -> Option<u64> {
    let mut bytes = 0usize;
    // SAFETY: the driver writes one size.
    let asked = unsafe { cuDeviceTotalMem_v2(&raw mut bytes, device) };
    (asked == CUresult::CUDA_SUCCESS).then_some(bytes as u64)
}
