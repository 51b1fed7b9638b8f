//! Stops panics at the boundary and turns answers into codes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use cajeta_abi::{Code, ErrorBuf};

use crate::fault::{Answer, Fault};

/// Runs a call; a panic becomes [`Code::INTERNAL`] with its message.
pub(crate) fn answer<T>(call: impl FnOnce() -> Answer<T>) -> Answer<T> {
    // The state a panicking call leaves behind is either its own or behind
    // locks whose poison is handled where they are taken.
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| Err(panicked(payload)))
}

/// As [`answer`], writing the sentence into the caller's buffer.
pub(crate) fn code(error: &mut ErrorBuf, call: impl FnOnce() -> Answer<()>) -> Code {
    match answer(call) {
        Ok(()) => Code::OK,
        Err(fault) => {
            error.set(&fault.text);
            fault.code
        }
    }
}

fn panicked(payload: Box<dyn Any + Send>) -> Fault {
    let text = match payload.downcast_ref::<&str>() {
        Some(text) => (*text).to_string(),
        None => payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "no message".to_string()),
    };
    // A payload's destructor may panic in its turn; leaking it is the way out.
    std::mem::forget(payload);
    Fault::internal(format!("the plugin panicked: {text}"))
}
