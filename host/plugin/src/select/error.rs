//! Why no backend was chosen.

use std::fmt;

use super::explanation::Explanation;
use super::restriction::Restriction;
use crate::candidate::Outcome;
use crate::search::{PLUGIN_ADD_PATH, Source};

/// Why a selection failed.
#[derive(Debug, thiserror::Error)]
pub enum SelectError {
    /// A name that cannot be a backend's.
    #[error("{place}: `{value}` names no backend; expected names such as `cpu`, separated by commas")]
    BadName {
        /// The variable or option.
        place: &'static str,
        /// What was there.
        value: String,
    },
    /// Nothing that is allowed works.
    #[error("{}", NoneUsable(.explanation))]
    NoneUsable {
        /// Every candidate, and the folders searched.
        explanation: Box<Explanation>,
    },
    /// The process has another backend already.
    #[error(
        "the backend `{asked}` was asked for, but this process runs on `{active}`; start another process"
    )]
    AlreadyActive {
        /// What runs.
        active: String,
        /// What was asked for.
        asked: String,
    },
}

/// The text for people: what is allowed, why each of it does not work, where it was looked for.
struct NoneUsable<'a>(&'a Explanation);

impl fmt::Display for NoneUsable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let explanation = self.0;
        let restriction = &explanation.restriction;
        match restriction {
            Restriction::None => write!(f, "no backend can be used on this machine")?,
            restriction => write!(f, "no backend allowed by {restriction} can be used")?,
        }
        for name in &explanation.missing {
            write!(f, "\n  {name}: no {name} plugin is installed")?;
        }
        let mut asked = 0;
        for candidate in explanation.candidates.iter().filter(|candidate| restriction.allows(&candidate.id)) {
            asked += 1;
            write!(f, "\n  {} ({}): ", candidate.id, candidate.manifest.display())?;
            match &candidate.outcome {
                Outcome::Refused(refusal) => write!(f, "{refusal}")?,
                _ => write!(f, "{}", candidate.state())?,
            }
        }
        if asked == 0 && explanation.missing.is_empty() {
            write!(f, "\n  no plugin of the fixed order is installed")?;
        }
        write!(f, "\nsearched:")?;
        for folder in &explanation.folders {
            write!(f, "\n  {} ({}): {}", folder.path.display(), folder.source.name(), folder.state)?;
        }
        if explanation.folders.is_empty() {
            write!(f, "\n  no folder at all")?;
        }
        let package = match explanation.missing.first() {
            Some(name) => format!("install the package cajeta-backend-{name}"),
            None if asked == 0 => "install a backend package, for instance cajeta-backend-cpu".to_owned(),
            None => "put right what keeps one of them out".to_owned(),
        };
        write!(f, "\n{package}")?;
        if !explanation.missing.is_empty() {
            write!(f, ", name the folder of its manifest in {PLUGIN_ADD_PATH}")?;
        }
        match restriction {
            Restriction::Variable(_) => write!(f, ", or unset {}", super::BACKEND_VARIABLE)?,
            Restriction::Force(_) => write!(f, ", or drop the option that forces a backend")?,
            Restriction::None => {}
        }
        if explanation.folders.iter().any(|folder| folder.source == Source::PathVariable) {
            write!(f, "; {} replaces the standard folders", crate::search::PLUGIN_PATH)?;
        }
        write!(f, "; `cajeta backends --explain` says more")
    }
}
