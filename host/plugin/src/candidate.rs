//! A candidate backend: how far it came, and why no further.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::device::DeviceSummary;
use crate::manifest::PluginManifest;
use crate::search::Source;

/// The stages a candidate goes through, in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The file beside the library reads, and holds against what the library says of itself.
    Manifest,
    /// Owners, modes, links and the hash of the library.
    Trust,
    /// Machine and operating system.
    Arch,
    /// The dynamic loader takes it: no undefined symbol, no missing dependency.
    Open,
    /// It exports the header of a cajeta plugin.
    Symbol,
    /// Root version and interface ids.
    Abi,
    /// The types of its tables are the host's, and its rows keep the rules.
    Layout,
    /// It finds its driver, in a child process, within the time limit.
    Probe,
    /// It lists a device, opens it and computes a known result.
    Device,
    /// The rules of selection allow it.
    Policy,
}

impl Stage {
    /// The stage's name for people and records.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Manifest => "manifest",
            Stage::Trust => "trust",
            Stage::Arch => "arch",
            Stage::Open => "open",
            Stage::Symbol => "symbol",
            Stage::Abi => "abi",
            Stage::Layout => "layout",
            Stage::Probe => "probe",
            Stage::Device => "device",
            Stage::Policy => "policy",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a candidate cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{stage}: {reason}{}", remedy_suffix(.remedy))]
pub struct Refusal {
    /// The stage that refused it.
    pub stage: Stage,
    /// What was expected and what was found.
    pub reason: String,
    /// What to do about it; empty when there is nothing to say.
    pub remedy: String,
    /// Whether the plugin itself gave this answer, in a process that then ended well: it is no crash, no
    /// hang and no early exit.
    #[serde(skip)]
    pub orderly: bool,
}

impl Refusal {
    /// A refusal with a reason and a remedy.
    pub fn new(stage: Stage, reason: impl Into<String>, remedy: impl Into<String>) -> Refusal {
        Refusal { stage, reason: reason.into(), remedy: remedy.into(), orderly: false }
    }
}

fn remedy_suffix(remedy: &str) -> String {
    if remedy.is_empty() { String::new() } else { format!("; {remedy}") }
}

/// What became of a candidate.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Outcome {
    /// It works here.
    Usable {
        /// Its devices, as the probe saw them.
        devices: Vec<DeviceSummary>,
        /// The tiny kernel the probe ran; empty when the backend has no row the probe knows.
        kernel: String,
        /// Whether the answer is a stored success of an earlier probe.
        cached: bool,
        /// Milliseconds the probe took.
        probe_ms: u64,
    },
    /// It does not.
    Refused(Refusal),
    /// Nothing is known beyond the stages that open nothing.
    NotTried {
        /// Why it was not tried.
        reason: String,
    },
}

/// One backend library that was found.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The backend id.
    pub id: String,
    /// Version by its manifest; empty when that did not read.
    pub version: String,
    /// The manifest.
    pub manifest: PathBuf,
    /// The library, canonical, once the trust stage resolved it.
    pub library: Option<PathBuf>,
    /// Which rule of the search found it.
    pub source: Source,
    /// How far it came.
    pub outcome: Outcome,
    /// What the rules of selection say of a candidate that works; empty when nothing.
    pub policy: String,
    /// The manifest's content, when it passed the stages that open nothing.
    #[serde(skip)]
    pub checked: Option<Arc<PluginManifest>>,
}

impl Candidate {
    /// Whether the candidate works here.
    pub fn is_usable(&self) -> bool {
        matches!(self.outcome, Outcome::Usable { .. })
    }

    /// The stage and reason in one line.
    pub fn state(&self) -> String {
        match &self.outcome {
            Outcome::Usable { devices, cached, .. } => {
                let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
                let stored = if *cached { " (stored probe)" } else { "" };
                format!("usable{stored}: {}", names.join(", "))
            }
            Outcome::Refused(refusal) => format!("refused at {refusal}"),
            Outcome::NotTried { reason } => format!("not tried: {reason}"),
        }
    }
}
