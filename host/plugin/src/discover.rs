//! Finds candidates and takes them through the stages that open nothing: manifest, trust, arch, abi.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cajeta_abi::{BACKEND_1, DEVICE_1};
use serde::Serialize;

use crate::candidate::{Candidate, Outcome, Refusal, Stage};
use crate::manifest::{PluginManifest, name_of_file};
use crate::search::{SearchOptions, Source};
use crate::{arch, trust};

/// The interface ids this host speaks.
pub const SPOKEN: [&str; 2] = [BACKEND_1, DEVICE_1];

/// Folders that were searched, and what was found there.
#[derive(Clone, Debug, Serialize)]
pub struct Discovery {
    /// In search order.
    pub folders: Vec<Folder>,
    /// In search order, by name within a folder.
    pub candidates: Vec<Candidate>,
}

/// One folder of the search.
#[derive(Clone, Debug, Serialize)]
pub struct Folder {
    /// As it was named.
    pub path: PathBuf,
    /// By which rule.
    pub source: Source,
    /// What became of it: `N manifests`, `does not exist`, or why it was not read.
    pub state: String,
}

/// Searches the folders and checks what can be checked without opening a library.
///
/// Every manifest found is a candidate, with its refusal if it has one. The first candidate of an id
/// wins, whatever its state, so that what runs depends on the search order alone; later ones are
/// reported as duplicates.
pub fn discover(options: &SearchOptions) -> Discovery {
    let mut discovery = Discovery { folders: Vec::new(), candidates: Vec::new() };
    let mut first: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (source, path, usable) in options.folders() {
        let found = usable.and_then(|()| manifests(&path));
        let state = match &found {
            Ok(manifests) => {
                format!("{} manifest{}", manifests.len(), if manifests.len() == 1 { "" } else { "s" })
            }
            Err(reason) => reason.clone(),
        };
        for manifest in found.unwrap_or_default() {
            let mut candidate = examine(&path, &manifest, source);
            match first.get(&candidate.id) {
                Some(earlier) => {
                    candidate.checked = None;
                    candidate.outcome = Outcome::Refused(Refusal::new(
                        Stage::Policy,
                        format!("{} comes first in the search order", earlier.display()),
                        format!(
                            "remove one of the two, or name its folder in {}",
                            crate::search::PLUGIN_PATH
                        ),
                    ));
                }
                None => {
                    first.insert(candidate.id.clone(), manifest);
                }
            }
            discovery.candidates.push(candidate);
        }
        discovery.folders.push(Folder { path, source, state });
    }
    discovery
}

/// The manifests of a folder, by name.
fn manifests(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err("does not exist".into()),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| name_of_file(path).is_some())
        .collect();
    found.sort();
    Ok(found)
}

/// Takes one manifest through the stages that open nothing.
pub(crate) fn examine(folder: &Path, manifest: &Path, source: Source) -> Candidate {
    let mut candidate = Candidate {
        id: crate::printable::line(name_of_file(manifest).unwrap_or("?"), 32),
        version: String::new(),
        manifest: manifest.to_owned(),
        library: None,
        source,
        outcome: Outcome::NotTried { reason: "not probed".into() },
        policy: String::new(),
        checked: None,
    };
    if let Err(refusal) = check(folder, manifest, &mut candidate) {
        candidate.checked = None;
        candidate.outcome = Outcome::Refused(refusal);
    }
    candidate
}

fn check(folder: &Path, path: &Path, candidate: &mut Candidate) -> Result<(), Refusal> {
    let folder = folder.canonicalize().map_err(|error| {
        Refusal::new(
            Stage::Trust,
            format!("{} cannot be resolved: {error}", folder.display()),
            "check its permissions",
        )
    })?;
    // Before a byte of it is believed.
    trust::check(&folder, path)?;
    let manifest = PluginManifest::read(path)?;
    candidate.version = manifest.version.clone();
    if manifest.build_tree && candidate.source == Source::System {
        return Err(Refusal::new(
            Stage::Manifest,
            format!("{} is of a build tree, and has no place in the system folder", path.display()),
            "install the plugin's package",
        ));
    }
    let library = folder.join(&manifest.library);
    if !library.exists() {
        return Err(Refusal::new(
            Stage::Manifest,
            format!("the library it names, {}, does not exist", library.display()),
            if manifest.build_tree { "build the plugin" } else { "reinstall the plugin" },
        ));
    }
    let library = trust::check(&folder, &library)?;
    candidate.library = Some(library.clone());
    arch::check(&manifest, &library)?;
    check_tables(&manifest)?;
    candidate.checked = Some(Arc::new(manifest));
    Ok(())
}

fn check_tables(manifest: &PluginManifest) -> Result<(), Refusal> {
    let missing: Vec<&str> =
        SPOKEN.into_iter().filter(|spoken| !manifest.tables.iter().any(|table| table == spoken)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(
        Stage::Abi,
        format!("it speaks {}; this host needs {}", manifest.tables.join(", "), missing.join(" and ")),
        "install a host of the plugin's release, or the plugin's release for this host",
    ))
}
