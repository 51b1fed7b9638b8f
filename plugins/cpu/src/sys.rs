//! Questions to the operating system that take an unsafe call.

use std::path::PathBuf;

/// The file this library (or the program it is linked into) was loaded from.
#[cfg(unix)]
pub(crate) fn own_file() -> Option<PathBuf> {
    use std::ffi::{CStr, OsStr, c_void};
    use std::os::unix::ffi::OsStrExt;

    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let own: fn() -> Option<PathBuf> = own_file;
    // SAFETY: any address may be asked about; `info` is writable for the answer.
    let found = unsafe { libc::dladdr(own as *const c_void, info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: zeroed bytes are a valid `Dl_info`, and the call filled it.
    let name = unsafe { info.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: on success `dli_fname` is a string the loader keeps.
    let name = unsafe { CStr::from_ptr(name) };
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

/// The file this library was loaded from: this system does not say.
#[cfg(not(unix))]
pub(crate) fn own_file() -> Option<PathBuf> {
    None
}
