//! Opening libcuda: is it there, is it new enough, what devices does it show.

use std::ffi::c_int;
use std::sync::OnceLock;

use cajeta_plugin_api::{Answer, Fault};
use cudarc::driver::sys::{
    CUdevice, CUresult, cuDeviceGet, cuDeviceGetCount, cuDriverGetVersion, cuInit, is_culib_present,
};

use super::error::check;

/// The driver version the device code and the calls of this plugin are for: CUDA 13.0.
const NEEDED: i32 = 13_000;

/// The opened driver.
pub(crate) struct Driver {
    version: i32,
    devices: Vec<CUdevice>,
}

impl Driver {
    /// Opens the driver, once a process.
    ///
    /// # Errors
    /// Unavailable, with the remedy: no driver, one too old, no device.
    pub(crate) fn get() -> Answer<&'static Driver> {
        static DRIVER: OnceLock<Answer<Driver>> = OnceLock::new();
        DRIVER.get_or_init(Driver::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Answer<Driver> {
        // SAFETY: opens and closes the library by its system name, nothing more.
        if !unsafe { is_culib_present() } {
            return Err(Fault::unavailable("libcuda.so.1 not found, install the NVIDIA driver"));
        }
        let mut version = 0;
        // SAFETY: the library is present and has had this call since its first version.
        check(unsafe { cuDriverGetVersion(&raw mut version) }, "asking the driver's version")?;
        if version < NEEDED {
            return Err(Fault::unavailable(format!(
                "the NVIDIA driver supports CUDA {}, expected {} or later: update it to release 580 or later",
                spelled(version),
                spelled(NEEDED)
            )));
        }
        // SAFETY: no pointers; the flags must be 0.
        let started = unsafe { cuInit(0) };
        if started == CUresult::CUDA_ERROR_NO_DEVICE {
            return Err(Fault::unavailable(
                "the NVIDIA driver shows no device; check CUDA_VISIBLE_DEVICES and that a GPU is there",
            ));
        }
        check(started, "starting the driver").map_err(|fault| {
            Fault::unavailable(format!("{}; check `nvidia-smi` and access to /dev/nvidia*", fault.text))
        })?;
        let mut count: c_int = 0;
        // SAFETY: the driver is started and writes one integer.
        check(unsafe { cuDeviceGetCount(&raw mut count) }, "counting devices")?;
        let mut devices = Vec::new();
        for ordinal in 0..count {
            let mut device: CUdevice = 0;
            // SAFETY: as above, for an ordinal below the count.
            check(unsafe { cuDeviceGet(&raw mut device, ordinal) }, "finding a device")?;
            devices.push(device);
        }
        Ok(Driver { version, devices })
    }

    /// The CUDA version the driver supports, for instance `13.0`.
    pub(crate) fn version(&self) -> String {
        spelled(self.version)
    }

    /// Devices the driver shows.
    pub(crate) fn count(&self) -> usize {
        self.devices.len()
    }

    /// A device by its index.
    ///
    /// # Errors
    /// Invalid when there is none.
    pub(crate) fn device(&self, index: u32) -> Answer<CUdevice> {
        self.devices.get(index as usize).copied().ok_or_else(|| {
            Fault::invalid(format!("device {index} does not exist: the driver shows {}", self.devices.len()))
        })
    }
}

fn spelled(version: i32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_spelled_as_people_know_them() {
        assert_eq!((spelled(13_000).as_str(), spelled(12_040).as_str()), ("13.0", "12.4"));
    }
}
