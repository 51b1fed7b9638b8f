//! Every candidate and what became of it, for people and for programs.

use std::fmt;

use serde::Serialize;

use super::restriction::Restriction;
use crate::candidate::{Candidate, Outcome};
use crate::discover::{Discovery, Folder};

/// What a selection saw. Serialises as the answer of `cajeta backends --explain --json`.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The backend chosen, if any.
    pub chosen: Option<String>,
    /// What may be chosen.
    pub restriction: Restriction,
    /// Names that were given and that no plugin found has.
    pub missing: Vec<String>,
    /// Every candidate, in search order.
    pub candidates: Vec<Candidate>,
    /// The folders searched, in order.
    pub folders: Vec<Folder>,
}

impl Explanation {
    pub(super) fn new(discovery: Discovery, restriction: Restriction) -> Explanation {
        let Discovery { folders, candidates } = discovery;
        let installed = |name: &String| candidates.iter().any(|candidate| candidate.id == *name);
        let missing = restriction.named().iter().filter(|name| !installed(name)).cloned().collect();
        Explanation { chosen: None, restriction, missing, candidates, folders }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.chosen {
            Some(id) => writeln!(f, "chosen: {id} ({})", self.restriction)?,
            None => writeln!(f, "chosen: none ({})", self.restriction)?,
        }
        for name in &self.missing {
            writeln!(f, "{name}\n  no {name} plugin is installed")?;
        }
        for candidate in &self.candidates {
            writeln!(f, "{} {}", candidate.id, candidate.version)?;
            writeln!(f, "  manifest: {} ({})", candidate.manifest.display(), candidate.source.name())?;
            match &candidate.outcome {
                Outcome::Usable { devices, kernel, cached, probe_ms } => {
                    let stored = if *cached { ", a stored success" } else { "" };
                    writeln!(f, "  usable (probe: {probe_ms} ms{stored})")?;
                    for device in devices {
                        let software = if device.software { ", software" } else { "" };
                        writeln!(
                            f,
                            "  device {}: {} [{}{software}]",
                            device.index, device.name, device.target
                        )?;
                    }
                    if !kernel.is_empty() {
                        writeln!(f, "  trial kernel: {kernel}")?;
                    }
                }
                Outcome::Refused(refusal) => {
                    writeln!(f, "  refused at stage {}: {}", refusal.stage, refusal.reason)?;
                    if !refusal.remedy.is_empty() {
                        writeln!(f, "  remedy: {}", refusal.remedy)?;
                    }
                }
                Outcome::NotTried { reason } => writeln!(f, "  not tried: {reason}")?,
            }
            if !candidate.policy.is_empty() {
                writeln!(f, "  policy: {}", candidate.policy)?;
            }
        }
        if self.candidates.is_empty() && self.missing.is_empty() {
            writeln!(f, "no plugin was found")?;
        }
        writeln!(f, "searched:")?;
        for folder in &self.folders {
            writeln!(f, "  {} ({}): {}", folder.path.display(), folder.source.name(), folder.state)?;
        }
        Ok(())
    }
}
