//! The error of a call into a plugin.

use std::sync::Arc;

use cajeta_abi::{Code, ErrorBuf};

use crate::printable;

/// A call into a plugin that did not do what was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{operation} failed on backend `{backend}`: {}{}", .code.name(), sentence(.text))]
pub struct DeviceError {
    /// The call, for instance `alloc`.
    pub operation: &'static str,
    /// The backend's id.
    pub backend: Arc<str>,
    /// The answer.
    pub code: Code,
    /// The plugin's sentence, or the rule of this side that was broken.
    pub text: String,
}

impl DeviceError {
    pub(crate) fn new(
        operation: &'static str,
        backend: &Arc<str>,
        code: Code,
        text: impl Into<String>,
    ) -> DeviceError {
        DeviceError { operation, backend: backend.clone(), code, text: text.into() }
    }

    /// The plugin's own words, made fit for a terminal.
    pub(crate) fn said(
        operation: &'static str,
        backend: &Arc<str>,
        code: Code,
        words: &ErrorBuf,
    ) -> DeviceError {
        DeviceError::new(operation, backend, code, printable::line(words.as_str(), 1000))
    }

    /// Whether the device is gone for good.
    pub fn is_lost(&self) -> bool {
        self.code == Code::LOST
    }

    /// Whether the backend cannot do that, now or later.
    pub fn is_unsupported(&self) -> bool {
        self.code == Code::UNSUPPORTED
    }

    /// Whether there was no room.
    pub fn is_out_of_memory(&self) -> bool {
        self.code == Code::OUT_OF_MEMORY
    }
}

fn sentence(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {text}") }
}
