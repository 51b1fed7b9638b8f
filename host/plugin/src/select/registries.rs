//! The registries of all installed plugins, on a machine with their hardware or without.

use super::restriction::Restriction;
use super::{SelectError, SelectOptions, attempt};
use crate::candidate::{Candidate, Outcome, Refusal, Stage};
use crate::device::Backend;
use crate::discover::discover;

/// An installed plugin, and its registry where it could be read.
#[derive(Clone, Debug)]
pub struct Installed {
    /// What was found, and what a probe made of it.
    pub candidate: Candidate,
    /// The backend, open and not probed in this process: rows and layouts are data and need no driver.
    pub backend: Result<Backend, Refusal>,
}

/// Every installed plugin that the options allow; all of them where they name none.
///
/// A plugin is tried in a child process first, as ever. It need not work there: its rows are read when it
/// said in order that its driver or hardware is missing, and not when it crashed, hung or was refused
/// before that.
///
/// # Errors
/// The restriction cannot be read.
pub fn registries(options: &SelectOptions) -> Result<Vec<Installed>, SelectError> {
    let restriction = Restriction::read(options)?;
    let candidates = discover(&options.search).candidates.into_iter();
    let allowed =
        candidates.filter(|candidate| restriction == Restriction::None || restriction.allows(&candidate.id));
    Ok(allowed.map(|candidate| read(candidate, options)).collect())
}

fn read(mut candidate: Candidate, options: &SelectOptions) -> Installed {
    attempt::probe(&mut candidate, &options.probe);
    let backend = match &candidate.outcome {
        Outcome::Usable { .. } => open(&candidate),
        Outcome::Refused(refusal) if refusal.orderly && refusal.stage >= Stage::Probe => open(&candidate),
        Outcome::Refused(refusal) => Err(refusal.clone()),
        Outcome::NotTried { reason } => Err(Refusal::new(Stage::Policy, reason.clone(), "")),
    };
    Installed { candidate, backend }
}

fn open(candidate: &Candidate) -> Result<Backend, Refusal> {
    match &candidate.library {
        Some(library) => Backend::load(library, candidate.checked.as_deref(), &mut |_| {}),
        None => Err(Refusal::new(Stage::Manifest, "its manifest names no library", "reinstall the plugin")),
    }
}
