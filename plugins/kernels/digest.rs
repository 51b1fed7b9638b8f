//! The digest of the kernel sources, so that a build knows whether its device code is of these sources.
//!
//! Shared by path: `cargo xtask kernels` records it beside what it compiled, and the build script of a
//! backend that embeds the code compares.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// SHA-256 over the paths and contents of every `.cu` and `.h` below `root`, in lower-case hexadecimal.
///
/// # Errors
/// A folder or file that cannot be read, by name.
pub(crate) fn of_sources(root: &Path) -> Result<String, String> {
    let mut files = Vec::new();
    collect(root, &mut files)?;
    files.sort();
    let mut hasher = Sha256::new();
    for file in files {
        let text = fs::read(&file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        hasher.update((name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(&text);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries =
        fs::read_dir(folder).map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "cu" || extension == "h") {
            files.push(path);
        }
    }
    Ok(())
}
