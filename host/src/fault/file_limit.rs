//! A limit on the size of files.
//!
//! Whoever writes past it gets SIGXFSZ, which ends the process unless somebody took it up. Where it is ignored the
//! write fails instead, with a reason that is told like any other, and whatever does not hang on that file goes on.

use std::io;

/// Has writes past the limit fail. What this process starts inherits it.
///
/// # Errors
/// When the system refuses.
pub fn outlive_file_limits() -> io::Result<()> {
    // SAFETY: takes numbers only; ignoring a signal runs no code of this program.
    match unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) } {
        libc::SIG_ERR => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
