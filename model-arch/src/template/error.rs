//! What can be wrong with a chat template, apart from the conversation it refuses.

use crate::gguf::GgufError;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a conversation could not be turned into a prompt.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The key is there with another type than text.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// What is wrong with the template that a file carries.
    #[error("{}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong; part of the message, so not a separate source.
        problem: Box<TemplateError>,
    },
    /// The template is larger than any real one.
    #[error("chat template: {got} bytes are more than the {limit} that are accepted; the file is damaged")]
    TooLarge {
        /// Its size in bytes.
        got: usize,
        /// The largest size accepted.
        limit: usize,
    },
    /// The template is not valid.
    #[error("chat template: line {line}: {detail}; use the raw prompt, or give a corrected template")]
    Syntax {
        /// Line in the template, from 1.
        line: usize,
        /// What the parser expected.
        detail: String,
    },
    /// The template failed on this conversation.
    #[error("chat template: line {line}: {detail}")]
    Render {
        /// Line in the template, from 1.
        line: usize,
        /// What failed there.
        detail: String,
    },
    /// The template itself refused the conversation, for example because roles do not alternate. The caller's mistake.
    #[error("the model's chat template does not accept these messages: {message}")]
    Refused {
        /// The template's own words.
        message: String,
    },
    /// The template ran too long or made too much text.
    #[error(
        "chat template: stopped after {fuel} units of work (near line {line}); the template does not end or makes too much text"
    )]
    TooMuchWork {
        /// The budget it had: about one per instruction and per 64 bytes made.
        fuel: u64,
        /// Line in the template, from 1; 0 when unknown.
        line: usize,
    },
}

/// What `raise_exception` puts behind the error that it raises, so that it can be told from others.
#[derive(Debug, Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

impl TemplateError {
    /// This error with the file that it is about, unless it names that already.
    pub(super) fn in_file(self, path: &Path) -> Self {
        match self {
            Self::Metadata(_) | Self::File { .. } => self,
            problem => Self::File { path: path.to_path_buf(), problem: Box::new(problem) },
        }
    }

    /// The error for one that the engine reported while compiling.
    pub(super) fn compiling(error: &minijinja::Error) -> Self {
        Self::Syntax { line: error.line().unwrap_or(0), detail: describe(error) }
    }

    /// The error for one that the engine reported while rendering with that much fuel.
    pub(super) fn rendering(error: &minijinja::Error, fuel: u64) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(current) = cause {
            if let Some(raised) = current.downcast_ref::<Raised>() {
                return Self::Refused { message: raised.0.clone() };
            }
            cause = current.source();
        }
        let line = error.line().unwrap_or(0);
        match error.kind() {
            minijinja::ErrorKind::OutOfFuel => Self::TooMuchWork { fuel, line },
            _ => Self::Render { line, detail: describe(error) },
        }
    }
}

/// The kind and the detail, without the engine's own mention of the place.
fn describe(error: &minijinja::Error) -> String {
    match error.detail() {
        Some(detail) => format!("{}: {detail}", error.kind()),
        None => error.kind().to_string(),
    }
}
