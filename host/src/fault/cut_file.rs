//! A model file cut short while it is mapped.
//!
//! Whoever touches a page that the file no longer has gets SIGBUS, and there is nothing to go on with: weights
//! are missing in the middle of a step. The handler says so and ends the process. Any other SIGBUS goes to whoever
//! had the signal before.

use std::io;
use std::sync::OnceLock;

use cajeta_model_arch::gguf::mapped;

use super::{decimal, end_with};

/// What happened on SIGBUS before.
static FORMER: OnceLock<libc::sigaction> = OnceLock::new();

/// Takes over SIGBUS for this process; once is enough.
///
/// # Errors
/// When the system refuses.
pub fn name_cut_files() -> io::Result<()> {
    // SAFETY: a signal action is plain data for which zeros are valid: no flags, no mask, the default.
    let mut former: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; `former` is writable for the call.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &mut former) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Known before the handler can run, which reads it.
    if FORMER.set(former).is_err() {
        return Ok(());
    }
    // SAFETY: as above.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_bus_error;
    action.sa_sigaction = handler as libc::sighandler_t;
    // On the signal stack, where a thread has one: another SIGBUS may be a stack that ran over.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for, calls only what may be called in a
    // handler (see there), and lives as long as the program.
    if unsafe { libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Only functions that POSIX calls async-signal-safe are called from here on: `write`, `_exit`, `sigaction`,
/// `raise`. Nothing allocates, locks or panics.
extern "C" fn on_bus_error(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the system passes a description that is valid until the handler returns.
    let info = unsafe { info.as_ref() };
    // Somebody sent it: then no address belongs to it, and no instruction will raise it again.
    let was_sent = info.is_some_and(|info| info.si_code <= 0);
    if let Some(info) = info.filter(|_| !was_sent) {
        // SAFETY: the description of a SIGBUS that an instruction raised has an address.
        let address = unsafe { info.si_addr() };
        if let Some(page) = mapped::at(address.addr()) {
            end_with(&[
                page.path(),
                b" was cut short while it was in use (byte ",
                decimal(page.offset as u64, &mut [0; 20]),
                b" is gone, or its disk does not read); the file must not change while it is loaded",
            ]);
        }
    }
    if let Some(former) = FORMER.get() {
        // SAFETY: the action that was in force before this one.
        unsafe { libc::sigaction(libc::SIGBUS, former, std::ptr::null_mut()) };
    }
    // Returning runs the instruction again, and the former handler gets its fault.
    if was_sent {
        // SAFETY: delivered to the former handler when this one returns.
        unsafe { libc::raise(libc::SIGBUS) };
    }
}
