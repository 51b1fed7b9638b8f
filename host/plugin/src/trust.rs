//! Who may have written a plugin.
//!
//! Opening a library gives its writers everything this process may do, so only users who have that
//! already may have written it: root, the user this process runs as, and whoever owns the running
//! program or a folder above it, since they could have replaced the program itself (a checkout of one
//! user built by another, as in many containers). The rules hold for the library, its manifest and
//! every folder above them:
//!
//! - the owner is one of those users;
//! - nobody else may write. A folder with the sticky bit (`/tmp`) may be written by all *above* the
//!   plugin's own folder, because entries in it can be replaced by their owners only; and a folder
//!   above the plugin's that is also above the program is no concern, as whoever may write there
//!   could have replaced the program;
//! - the group may write only where it is the owner's own: its number is the owner's (the
//!   private-group convention of most distributions, under which builds are made with mode 775);
//! - links are followed first, and neither the manifest nor the library may be outside the folder
//!   that was searched.
//!
//! Because the whole chain of folders is checked, nobody else can swap a file between its check and
//! its opening.

use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use crate::candidate::{Refusal, Stage};

const STICKY: u32 = 0o1000;

/// Follows links and checks a file of a plugin and every folder above it.
///
/// `folder` is the searched folder, canonical. Answers the canonical file.
///
/// # Errors
/// Stage trust: missing, outside the folder, or writable by somebody else.
pub fn check(folder: &Path, file: &Path) -> Result<PathBuf, Refusal> {
    let canonical = file.canonicalize().map_err(|error| {
        refusal(format!("{} cannot be resolved: {error}", file.display()), "reinstall the plugin")
    })?;
    if !canonical.starts_with(folder) {
        return Err(refusal(
            format!("{} leads to {}, outside its folder", file.display(), canonical.display()),
            "put the file itself into the folder, not a link",
        ));
    }
    let trusted = Trusted::of_process();
    let metadata = metadata(&canonical)?;
    if !metadata.is_file() {
        return Err(refusal(
            format!("{} is not a regular file", canonical.display()),
            "reinstall the plugin",
        ));
    }
    check_one(&canonical, &metadata, trusted, false)?;
    for (depth, ancestor) in canonical.ancestors().skip(1).enumerate() {
        // The folders between the library and the searched folder, that one included, hold plugins.
        let holds_plugins = ancestor.starts_with(folder) || depth == 0;
        if holds_plugins || !trusted.above_program.iter().any(|above| above == ancestor) {
            check_one(ancestor, &self::metadata(ancestor)?, trusted, !holds_plugins)?;
        }
    }
    Ok(canonical)
}

/// Checks a file that goes with a plugin or a cache, by its own folder; the canonical file.
///
/// # Errors
/// As [`check`], as a clause about the file, which whoever tells it has named: `it is writable by everybody …`.
pub fn check_in_place(file: &Path) -> Result<PathBuf, String> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let folder = folder.canonicalize().map_err(|error| format!("its folder cannot be resolved: {error}"))?;
    check(&folder, file).map_err(|refusal| {
        // The rules are told of the canonical file, or of a folder above it.
        let canonical = file.file_name().map(|name| folder.join(name));
        let named = [Some(file.to_owned()), canonical].into_iter().flatten();
        let mut rest = named.filter_map(|named| {
            refusal.reason.strip_prefix(&format!("{} ", named.display())).map(str::to_owned)
        });
        rest.next_back().map_or(refusal.reason.clone(), |rest| format!("it {rest}"))
    })
}

/// Holds a folder or an opened file that is no plugin, but believed, to the rules for who owns it and who
/// may write it; what is above it is not asked about. A folder with the sticky bit passes where
/// `sticky_counts`.
///
/// # Errors
/// Stage trust: it belongs to somebody else, or somebody else may write it.
pub fn check_owner(path: &Path, metadata: &Metadata, sticky_counts: bool) -> Result<(), Refusal> {
    check_one(path, metadata, Trusted::of_process(), sticky_counts)
}

/// Holds the library against the hash its manifest promises, and answers the hash it has.
///
/// # Errors
/// Stage trust: another hash, or a file that does not read.
pub fn check_hash(library: &Path, promised: Option<&str>) -> Result<String, Refusal> {
    let found = hash(library).map_err(|error| {
        refusal(format!("{} does not read: {error}", library.display()), "reinstall the plugin")
    })?;
    match promised {
        Some(promised) if promised != found => Err(refusal(
            format!("{} has the SHA-256 {found}, its manifest promises {promised}", library.display()),
            "reinstall the plugin; the library or its manifest was changed",
        )),
        _ => Ok(found),
    }
}

fn hash(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut block = vec![0; 1 << 18];
    loop {
        let count = file.read(&mut block)?;
        if count == 0 {
            break;
        }
        hasher.update(&block[..count]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn metadata(path: &Path) -> Result<Metadata, Refusal> {
    path.metadata().map_err(|error| refusal(format!("{}: {error}", path.display()), "check its permissions"))
}

/// Who may have written a plugin of this process, beside root.
struct Trusted {
    /// The user this process runs as.
    user: u32,
    /// Owners of the program and of the folders above it.
    program_owners: Vec<u32>,
    /// The folders above the program.
    above_program: Vec<PathBuf>,
}

impl Trusted {
    fn of_process() -> &'static Trusted {
        static TRUSTED: OnceLock<Trusted> = OnceLock::new();
        TRUSTED.get_or_init(|| {
            // SAFETY: takes no pointers and cannot fail.
            let user = unsafe { libc::geteuid() };
            let program = std::env::current_exe().and_then(|path| path.canonicalize()).ok();
            // A program with another user's rights was started by somebody who does not have them.
            let program = program.filter(|_| !crate::search::is_elevated());
            let places: Vec<&Path> = program.iter().flat_map(|path| path.ancestors()).collect();
            let owner = |path: &&Path| path.metadata().ok().map(|metadata| metadata.uid());
            Trusted {
                user,
                program_owners: places.iter().filter_map(owner).collect(),
                above_program: places.iter().skip(1).map(|path| path.to_path_buf()).collect(),
            }
        })
    }
}

fn check_one(
    path: &Path,
    metadata: &Metadata,
    trusted: &Trusted,
    sticky_counts: bool,
) -> Result<(), Refusal> {
    let found = Ownership { owner: metadata.uid(), group: metadata.gid(), mode: metadata.mode() };
    found.check(trusted, sticky_counts).map_err(|(rule, remedy)| {
        refusal(
            format!("{} {rule} (owner {}, mode {:o})", path.display(), found.owner, found.mode & 0o7777),
            format!("{remedy} {}", path.display()),
        )
    })
}

/// What the rules look at.
#[derive(Clone, Copy)]
struct Ownership {
    owner: u32,
    group: u32,
    mode: u32,
}

impl Ownership {
    fn check(self, trusted: &Trusted, sticky_counts: bool) -> Result<(), (&'static str, &'static str)> {
        if self.owner != 0 && self.owner != trusted.user && !trusted.program_owners.contains(&self.owner) {
            return Err(("belongs to another user", "chown root"));
        }
        if sticky_counts && self.mode & STICKY != 0 {
            return Ok(());
        }
        if self.mode & 0o002 != 0 {
            return Err(("is writable by everybody", "chmod o-w"));
        }
        if self.mode & 0o020 != 0 && self.group != self.owner {
            return Err(("is writable by its group", "chmod g-w"));
        }
        Ok(())
    }
}

fn refusal(reason: String, remedy: impl Into<String>) -> Refusal {
    Refusal::new(Stage::Trust, reason, remedy)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const USER: u32 = 1000;

    fn allowed(owner: u32, group: u32, mode: u32, sticky_counts: bool) -> bool {
        let trusted = Trusted { user: USER, program_owners: vec![0, 2000], above_program: Vec::new() };
        Ownership { owner, group, mode }.check(&trusted, sticky_counts).is_ok()
    }

    #[test]
    fn only_root_and_the_user_may_write() {
        assert!(allowed(0, 0, 0o755, false));
        assert!(allowed(USER, USER, 0o755, false));
        assert!(!allowed(1001, USER, 0o755, false));
        assert!(allowed(2000, 2000, 0o755, false), "whoever owns the program is trusted already");
        assert!(!allowed(0, 0, 0o757, false));
    }

    #[test]
    fn group_write_is_for_the_owners_own_group() {
        assert!(allowed(USER, USER, 0o775, false));
        assert!(allowed(0, 0, 0o775, false));
        assert!(!allowed(USER, 100, 0o775, false));
        assert!(!allowed(0, USER, 0o775, false));
    }

    #[test]
    fn the_sticky_bit_excuses_folders_above_only() {
        assert!(allowed(0, 0, 0o1777, true));
        assert!(!allowed(0, 0, 0o1777, false));
        assert!(!allowed(1001, 0, 0o1777, true));
    }

    #[test]
    fn files_modes_and_links_of_a_real_folder() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = root.join("a.so");
        std::fs::write(&file, b"a").unwrap();
        let mode = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&root, 0o755);
        mode(&file, 0o644);
        assert_eq!(check(&root, &file).unwrap(), file);

        symlink("a.so", root.join("inside.so")).unwrap();
        assert_eq!(check(&root, &root.join("inside.so")).unwrap(), file);
        std::fs::write(outside.path().join("b.so"), b"b").unwrap();
        symlink(outside.path().join("b.so"), root.join("leaves.so")).unwrap();
        assert!(check(&root, &root.join("leaves.so")).unwrap_err().reason.contains("outside its folder"));

        mode(&file, 0o646);
        assert!(check(&root, &file).unwrap_err().reason.contains("writable by everybody"));
        mode(&file, 0o644);
        mode(&root, 0o777);
        assert!(check(&root, &file).unwrap_err().reason.contains("writable by everybody"));
        let alone = |sticky| check_owner(&root, &root.metadata().unwrap(), sticky);
        assert!(alone(true).unwrap_err().remedy.starts_with("chmod o-w"));
        mode(&root, 0o1777);
        assert!(alone(true).is_ok() && alone(false).is_err());
        assert!(check(&root, &file).unwrap_err().reason.contains("writable by everybody"));
        mode(&root, 0o755);
        assert!(check(&root, &root.join("none.so")).unwrap_err().reason.contains("cannot be resolved"));
    }

    #[test]
    fn a_clause_about_a_file_does_not_name_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode: u32| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(folder.path(), 0o755);
        let file = folder.path().join("a.json");
        std::fs::write(&file, b"a").unwrap();
        mode(&file, 0o644);
        assert!(check_in_place(&file).is_ok());
        mode(&file, 0o666);
        let why = check_in_place(&file).unwrap_err();
        assert!(why.starts_with("it is writable by everybody (owner "), "{why}");
        mode(&file, 0o644);
        mode(folder.path(), 0o777);
        let why = check_in_place(&file).unwrap_err();
        assert!(why.contains("is writable by everybody") && !why.contains("a.json"), "{why}");
        mode(folder.path(), 0o755);
        assert!(
            check_in_place(&folder.path().join("none")).unwrap_err().starts_with("it cannot be resolved")
        );
    }

    #[test]
    fn a_hash_is_held_against_the_promise() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        std::fs::write(&file, b"abc").unwrap();
        // The example of FIPS 180-2.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(check_hash(&file, Some(expected)).unwrap(), expected);
        assert_eq!(check_hash(&file, None).unwrap(), expected);
        let refusal = check_hash(&file, Some(&"0".repeat(64))).unwrap_err();
        assert_eq!(refusal.stage, Stage::Trust);
    }
}
