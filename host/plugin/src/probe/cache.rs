//! Stored successes of probes. Failures are never stored: what is missing may be installed.
//!
//! A success holds for exactly the library, driver, visible devices and host it was found with. The
//! library is known by device, inode, size and both times; the change time moves with every write
//! and cannot be set back, so a library need not be hashed at every start. The hash is stored as
//! well, for people. The folder is the user's own: a stored success only skips the child process.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Avoided, Success};
use crate::device::DeviceSummary;
use crate::manifest::PluginManifest;

/// Most bytes of a stored success that are read.
const STORED_BYTES_MAX: u64 = 1 << 20;
/// Most bytes of a driver file that count.
const DRIVER_FILE_BYTES_MAX: usize = 4096;
/// Where driver libraries are, besides the folders of `LD_LIBRARY_PATH`.
const LIBRARY_FOLDERS: [&str; 8] = [
    "/usr/lib",
    "/usr/lib64",
    "/lib",
    "/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
    "/usr/lib/wsl/lib",
];

/// What a success depends on. Two equal keys are the same situation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Key {
    library: PathBuf,
    identity: Option<FileIdentity>,
    manifest: Option<FileIdentity>,
    driver: Vec<(String, Option<FileIdentity>)>,
    driver_files: Vec<(String, Option<String>)>,
    visibility: Vec<(String, Option<String>)>,
    host: String,
    /// Rows that are not run: the trial kernel is another where there are others.
    avoided: Vec<Avoided>,
}

/// A file as the file system knows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct FileIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileIdentity {
    fn of(path: &Path) -> Option<FileIdentity> {
        let path = path.canonicalize().ok()?;
        let metadata = path.metadata().ok()?;
        Some(FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            path,
        })
    }
}

impl Key {
    /// The situation now.
    pub(super) fn of(library: &Path, manifest: Option<&PluginManifest>, avoided: &[Avoided]) -> Key {
        let libraries = manifest.map(|manifest| manifest.driver_libraries.as_slice()).unwrap_or_default();
        let files = manifest.map(|manifest| manifest.driver_files.as_slice()).unwrap_or_default();
        let variables = manifest.map(|manifest| manifest.visibility_variables.as_slice()).unwrap_or_default();
        let value = |name: &String| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Key {
            library: library.to_owned(),
            identity: FileIdentity::of(library),
            manifest: manifest.and_then(|manifest| FileIdentity::of(manifest.path.as_deref()?)),
            driver: libraries
                .iter()
                .map(|driver| (driver.name.clone(), find_library(&driver.name)))
                .collect(),
            driver_files: files.iter().map(|file| (file.clone(), first_bytes(Path::new(file)))).collect(),
            visibility: variables.iter().map(|name| (name.clone(), value(name))).collect(),
            host: format!("{} {}", env!("CARGO_PKG_VERSION"), host_build()),
            avoided: avoided.to_vec(),
        }
    }

    fn file(&self, folder: &Path) -> PathBuf {
        let digest = Sha256::digest(self.library.as_os_str().as_encoded_bytes());
        let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        folder.join(format!("{name}.json"))
    }
}

/// The probing side's own build: a rebuilt host of the same version may check more.
fn host_build() -> String {
    let executable = std::env::current_exe().ok().and_then(|path| path.metadata().ok());
    executable.map_or(String::new(), |metadata| format!("{}.{}", metadata.mtime(), metadata.mtime_nsec()))
}

/// Where the dynamic loader would find a driver library; the first place is enough for a stamp.
fn find_library(name: &str) -> Option<FileIdentity> {
    let path = Path::new(name);
    if path.is_absolute() {
        return FileIdentity::of(path);
    }
    let listed = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed).filter(|path| path.is_absolute()).collect();
    listed
        .into_iter()
        .chain(LIBRARY_FOLDERS.iter().map(PathBuf::from))
        .find_map(|folder| FileIdentity::of(&folder.join(path)))
}

fn first_bytes(path: &Path) -> Option<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(DRIVER_FILE_BYTES_MAX as u64).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Serialize, Deserialize)]
struct Stored {
    key: Key,
    sha256: String,
    devices: Vec<DeviceSummary>,
    kernel: String,
}

/// The stored success of this very situation, if there is one.
pub(super) fn find(folder: &Path, key: &Key) -> Option<Success> {
    let begun = Instant::now();
    key.identity.as_ref()?;
    let path = key.file(folder);
    let metadata = path.metadata().ok()?;
    // SAFETY: takes no pointers and cannot fail.
    let own = metadata.uid() == unsafe { libc::geteuid() } && metadata.mode() & 0o022 == 0;
    if !own || metadata.len() > STORED_BYTES_MAX {
        return None;
    }
    let stored: Stored = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (stored.key == *key).then(|| Success {
        devices: stored.devices,
        kernel: stored.kernel,
        cached: true,
        took: begun.elapsed().max(Duration::from_nanos(1)),
    })
}

/// Stores a success. Failing to is no failure: the next start probes again.
pub(super) fn store(folder: &Path, key: &Key, sha256: &str, success: &Success) {
    let stored = Stored {
        key: key.clone(),
        sha256: sha256.to_owned(),
        devices: success.devices.clone(),
        kernel: success.kernel.clone(),
    };
    if let Err(error) = write(folder, key, &stored) {
        tracing::debug!(folder = %folder.display(), %error, "the probe's success was not stored");
    }
}

fn write(folder: &Path, key: &Key, stored: &Stored) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let path = key.file(folder);
    let beside = path.with_extension(format!("{}.tmp", std::process::id()));
    let _ = fs::remove_file(&beside);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    serde_json::to_writer(&mut file, stored)?;
    // Whole or not at all: two hosts may store at once.
    fs::rename(&beside, &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn success() -> Success {
        Success { devices: Vec::new(), kernel: "copy".into(), cached: false, took: Duration::ZERO }
    }

    #[test]
    fn a_success_is_found_until_the_library_changes() {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("a.so");
        fs::write(&library, b"one").unwrap();
        let cache = folder.path().join("probe");
        let key = Key::of(&library, None, &[]);
        assert!(find(&cache, &key).is_none());
        store(&cache, &key, "hash", &success());
        let found = find(&cache, &Key::of(&library, None, &[])).unwrap();
        assert!(found.cached);
        assert_eq!(found.kernel, "copy");
        let avoided = [Avoided { row: "copy".into(), ..Avoided::default() }];
        assert!(find(&cache, &Key::of(&library, None, &avoided)).is_none(), "that row is known to go wrong");
        fs::write(&library, b"two").unwrap();
        assert!(find(&cache, &Key::of(&library, None, &[])).is_none());
    }

    #[test]
    fn rubbish_and_other_peoples_files_are_no_success() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("a.so");
        fs::write(&library, b"one").unwrap();
        let cache = folder.path().join("probe");
        let key = Key::of(&library, None, &[]);
        store(&cache, &key, "hash", &success());
        fs::set_permissions(key.file(&cache), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(find(&cache, &key).is_none());
        fs::set_permissions(key.file(&cache), fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(key.file(&cache), b"{").unwrap();
        assert!(find(&cache, &key).is_none());
    }

    #[test]
    fn driver_files_count() {
        let folder = tempfile::tempdir().unwrap();
        let version = folder.path().join("version");
        fs::write(&version, "1").unwrap();
        let text = format!(
            "schema = 1\nid = \"a\"\nversion = \"1\"\nlicense = \"MIT\"\nlibrary = \"a.so\"\narch = \"x\"\nos = \"y\"\n\
             tables = [\"backend/1\"]\nbuild_tree = true\ndriver_files = [\"{}\"]\n",
            version.display()
        );
        let manifest = PluginManifest::parse(&text).unwrap();
        let before = Key::of(&version, Some(&manifest), &[]);
        assert_eq!(before.driver_files[0].1.as_deref(), Some("1"));
        fs::write(&version, "2").unwrap();
        assert_ne!(before.driver_files, Key::of(&version, Some(&manifest), &[]).driver_files);
    }
}
