//! A model file cut short while it is mapped: one sentence and exit status 1, instead of a dead process.
//!
//! Whoever touches a page that the file no longer has gets SIGBUS, and there is nothing to go on with: weights
//! are missing in the middle of a step. The handler says so and ends the process. Any other SIGBUS goes to whoever
//! had the signal before. It is the program that installs it; a library leaves signals alone.

use std::io;
use std::sync::OnceLock;

use cajeta_model_arch::gguf::mapped::{self, MappedPage};

/// What happened on SIGBUS before.
static FORMER: OnceLock<libc::sigaction> = OnceLock::new();

/// Most bytes of the sentence.
const MAX_SENTENCE: usize = 1024;

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

/// Only functions that POSIX calls async-signal-safe are called from here on: `write`, `_exit`, `sigaction`.
/// Nothing allocates, locks or panics.
extern "C" fn on_bus_error(_signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if !info.is_null() {
        // SAFETY: with SA_SIGINFO the system passes a valid description, and that of SIGBUS has an address.
        let address = unsafe { (*info).si_addr() };
        if let Some(page) = mapped::at(address.addr()) {
            let (sentence, len) = sentence(&page);
            // SAFETY: `len` bytes of the array are readable. A short or failed write changes nothing below.
            unsafe { libc::write(libc::STDERR_FILENO, sentence.as_ptr().cast(), len.min(MAX_SENTENCE)) };
            // SAFETY: ends the process here and now; no destructor has to run.
            unsafe { libc::_exit(1) }
        }
    }
    // Returning runs the instruction again, and the former handler gets its fault.
    if let Some(former) = FORMER.get() {
        // SAFETY: the action that was in force before this one.
        unsafe { libc::sigaction(libc::SIGBUS, former, std::ptr::null_mut()) };
    }
}

/// What is said of a page that is gone, and how many bytes that are.
fn sentence(page: &MappedPage) -> ([u8; MAX_SENTENCE], usize) {
    let mut text = [0; MAX_SENTENCE];
    let mut len = 0;
    let mut digits = [0; 20];
    for part in [
        &b"cajeta: "[..],
        page.path(),
        b" was cut short while it was in use (byte ",
        decimal(page.offset as u64, &mut digits),
        b" is gone, or its disk does not read); the file must not change while it is loaded\n",
    ] {
        for (to, from) in text.iter_mut().skip(len).zip(part) {
            *to = *from;
            len += 1;
        }
    }
    (text, len)
}

/// A number in decimal, without the formatter.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut first = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + (number % 10) as u8;
        first = at;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    digits.get(first..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_model_arch::gguf::GgufFile;
    use cajeta_model_arch::gguf::writer::Header;

    #[test]
    fn numbers_are_written_whole() {
        for number in [0, 7, 10, 4096, u64::MAX] {
            assert_eq!(decimal(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }

    #[test]
    fn the_sentence_names_the_file_and_the_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, Header::new().begin(Vec::new()).unwrap().finish().unwrap()).unwrap();
        let file = GgufFile::open(&path).unwrap();
        let page = mapped::at(file.map().as_ptr().addr() + 17).unwrap();
        let (text, len) = sentence(&page);
        let said = std::str::from_utf8(&text[..len]).unwrap();
        assert!(said.starts_with(&format!("cajeta: {} was cut short", path.display())), "{said}");
        assert!(said.contains("(byte 17 is gone") && said.ends_with("while it is loaded\n"), "{said}");
    }
}
