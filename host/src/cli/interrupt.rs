//! Ctrl-C: the first stops an answer, one while nothing is being answered ends the program.

use std::io::{Write, stderr, stdin};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use super::failure::Outcome;

/// Nothing is being answered: an interrupt ends the program.
const IDLE: u8 = 0;
/// An answer is on its way: an interrupt asks it to stop.
const ANSWERING: u8 = 1;
/// It was asked to stop: another interrupt ends the program.
const STOPPING: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(IDLE);

/// How the terminal was when the program began; the line editor changes it while somebody types.
static TERMINAL: OnceLock<Termios> = OnceLock::new();
/// Ends the mode in which pasted text is marked, which the line editor sets as well.
const PASTE_UNMARKED: &[u8] = b"\x1b[?2004l\r\n";

/// Takes over interrupts (and termination, and the loss of the terminal) for this process.
pub(crate) fn take_over() -> Outcome {
    if let Ok(modes) = tcgetattr(stdin()) {
        let _ = TERMINAL.set(modes);
    }
    ctrlc::set_handler(|| {
        let asked = STATE.compare_exchange(ANSWERING, STOPPING, Ordering::SeqCst, Ordering::SeqCst);
        if asked.is_err() {
            leave_terminal();
            std::process::exit(130);
        }
    })?;
    Ok(())
}

/// Gives the terminal back as it was: a signal may come while somebody types.
fn leave_terminal() {
    let Some(before) = TERMINAL.get() else { return };
    if tcgetattr(stdin()).is_ok_and(|now| now.local_modes != before.local_modes) {
        // This is the end: there is nobody to tell that it fails.
        let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        let _ = stderr().lock().write_all(PASTE_UNMARKED);
    }
}

/// Removes a half-written file when interrupted, then ends the program.
pub(crate) fn remove_on_interrupt(partial: PathBuf) -> Outcome {
    ctrlc::set_handler(move || {
        // The file may not be there yet; there is nothing to do about any other reason.
        let _ = std::fs::remove_file(&partial);
        std::process::exit(130);
    })?;
    Ok(())
}

/// The time during which an interrupt stops the answer only; it ends with this value.
pub(crate) struct Answering(());

impl Answering {
    /// An answer begins.
    pub(crate) fn begin() -> Answering {
        STATE.store(ANSWERING, Ordering::SeqCst);
        Answering(())
    }

    /// Whether it was asked to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        STATE.load(Ordering::SeqCst) == STOPPING
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        STATE.store(IDLE, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_stopped_once_and_forgotten_after() {
        let answering = Answering::begin();
        assert!(!answering.is_stopped());
        STATE.store(STOPPING, Ordering::SeqCst);
        assert!(answering.is_stopped());
        drop(answering);
        assert_eq!(STATE.load(Ordering::SeqCst), IDLE);
    }
}
