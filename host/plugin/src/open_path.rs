//! Opens the one plugin a path names: a library, its manifest, or a folder with one manifest.

use std::path::{Path, PathBuf};

use crate::candidate::{Outcome, Refusal, Stage};
use crate::device::Backend;
use crate::discover::examine;
use crate::manifest::{PluginManifest, name_of_file};
use crate::probe::{self, ProbeOptions};
use crate::search::Source;
use crate::trust;

/// Opens the plugin at `path` for `cajeta backends check` and for tests, without selection.
///
/// `path` is a library, a manifest, or a folder that holds one manifest. A library without a manifest
/// beside it is opened all the same, since naming it is a choice; the trust rules hold for it too.
/// With `probe` the plugin goes through a child process first, so that one which crashes is an error
/// here; without, it is opened in this process at once. The driver is looked for in both cases.
///
/// # Errors
/// The stage at which the plugin was refused, with reason and remedy.
pub fn open_path(path: &Path, probe: Option<&ProbeOptions>) -> Result<Backend, Refusal> {
    let plugin = find(path)?;
    if let Some(options) = probe {
        probe::probe(&plugin.library, plugin.manifest.as_ref(), options)?;
    } else if let Some(manifest) = &plugin.manifest {
        trust::check_hash(&plugin.library, manifest.sha256.as_deref())?;
    }
    let backend = Backend::load(&plugin.library, plugin.manifest.as_ref(), &mut |_| {})?;
    backend
        .probe(false)
        .map_err(|error| probe::unavailable(Stage::Probe, &error, plugin.manifest.as_ref()))?;
    Ok(backend)
}

/// A library whose static stages passed, and its manifest if it has one.
struct Plugin {
    library: PathBuf,
    manifest: Option<PluginManifest>,
}

fn find(path: &Path) -> Result<Plugin, Refusal> {
    let refusal = |reason: String, remedy: &str| Refusal::new(Stage::Manifest, reason, remedy);
    let path = path.canonicalize().map_err(|error| {
        refusal(format!("{} cannot be resolved: {error}", path.display()), "check the path")
    })?;
    if path.is_dir() {
        let found = manifests(&path);
        return match found.as_slice() {
            [manifest] => of_manifest(manifest),
            [] => Err(refusal(
                format!("{} holds no manifest", path.display()),
                "name the library itself, or build the plugin",
            )),
            several => Err(refusal(
                format!("{} holds {} manifests", path.display(), several.len()),
                "name one of them",
            )),
        };
    }
    if name_of_file(&path).is_some() {
        return of_manifest(&path);
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    for manifest in manifests(folder) {
        let names_it = PluginManifest::read(&manifest)
            .ok()
            .and_then(|read| folder.join(read.library).canonicalize().ok())
            .is_some_and(|library| library == path);
        if names_it {
            return of_manifest(&manifest);
        }
    }
    Ok(Plugin { library: trust::check(folder, &path)?, manifest: None })
}

fn of_manifest(manifest: &Path) -> Result<Plugin, Refusal> {
    let folder = manifest.parent().unwrap_or(Path::new("/"));
    let candidate = examine(folder, manifest, Source::Configuration);
    match (candidate.outcome, candidate.library, candidate.checked) {
        (Outcome::Refused(refusal), ..) => Err(refusal),
        (_, Some(library), Some(checked)) => Ok(Plugin { library, manifest: Some(checked.as_ref().clone()) }),
        _ => Err(Refusal::new(
            Stage::Manifest,
            format!("{} names no library", manifest.display()),
            "reinstall the plugin",
        )),
    }
}

fn manifests(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<PathBuf> = paths.filter(|path| name_of_file(path).is_some()).collect();
    found.sort();
    found
}
