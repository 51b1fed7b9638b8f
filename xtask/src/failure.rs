//! What went wrong, told apart by whose fault it is: the caller's words or the work itself.

use std::fmt;
use std::path::Path;

/// Result of an xtask step.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// One sentence for the terminal, with the exit code that belongs to it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is not one of ours: exit 2, after the usage text.
    Usage(String),
    /// The command was understood and did not succeed: exit 1.
    Work(String),
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn work(message: impl Into<String>) -> Self {
        Self::Work(message.into())
    }

    /// An input or output error, naming the operation and the file.
    pub(crate) fn file(operation: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::Work(format!("cannot {operation} {}: {error}", path.display()))
    }

    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }

    pub(crate) fn exit_code(&self) -> i32 {
        if self.is_usage() { 2 } else { 1 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Work(message) => formatter.write_str(message),
        }
    }
}
