//! Ctrl-C: the first stops an answer, one while nothing is being answered ends the program.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use super::failure::Outcome;

/// Nothing is being answered: an interrupt ends the program.
const IDLE: u8 = 0;
/// An answer is on its way: an interrupt asks it to stop.
const ANSWERING: u8 = 1;
/// It was asked to stop: another interrupt ends the program.
const STOPPING: u8 = 2;

static STATE: AtomicU8 = AtomicU8::new(IDLE);

/// Takes over interrupts (and termination, and the loss of the terminal) for this process.
pub(crate) fn take_over() -> Outcome {
    ctrlc::set_handler(|| {
        let asked = STATE.compare_exchange(ANSWERING, STOPPING, Ordering::SeqCst, Ordering::SeqCst);
        if asked.is_err() {
            std::process::exit(130);
        }
    })?;
    Ok(())
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
