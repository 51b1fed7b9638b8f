//! Files written whole and read as what they are: never through a link, never from a pipe.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often writing is tried under another name, or again when somebody cleared the one it had.
const TRIES: usize = 16;
/// Age at which a temporary file is of a process that ended before it was done.
const STALE: Duration = Duration::from_secs(3600);
/// Digits in a temporary name.
const DIGITS: usize = 16;

/// Writes a file so that whoever reads its name sees the old content or the new one, also when two
/// processes write it at once.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_beside(path, bytes, &mut temporary_name)
}

fn write_beside(path: &Path, bytes: &[u8], name: &mut dyn FnMut() -> String) -> io::Result<()> {
    let mut last = io::Error::from(ErrorKind::AlreadyExists);
    for _ in 0..TRIES {
        let beside = path.with_file_name(name());
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside) {
            Ok(file) => file,
            // Somebody else's, who is still writing it.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                last = error;
                continue;
            }
            Err(error) => return Err(error),
        };
        match file.write_all(bytes).and_then(|()| fs::rename(&beside, path)) {
            Ok(()) => return Ok(()),
            // Somebody cleared the store meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => last = error,
            Err(error) => {
                let _ = fs::remove_file(&beside);
                return Err(error);
            }
        }
    }
    Err(last)
}

/// A name that no other process takes. Numbers of processes are no help: a folder that several containers
/// share has them twice.
fn temporary_name() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Its keys are the system's randomness.
    let random = RandomState::new().hash_one((std::process::id(), now));
    format!(".{random:0DIGITS$x}.new")
}

/// Whether a name is one that [`write_whole`] writes under before a file has its own.
pub(super) fn is_temporary(name: &str) -> bool {
    let digits = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new"));
    digits.is_some_and(|digits| {
        digits.len() == DIGITS
            && digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    })
}

/// Whether nobody writes a temporary file any more.
fn is_stale(path: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    let age = metadata.modified().ok().and_then(|written| written.elapsed().ok());
    metadata.is_file() && age.is_some_and(|age| age >= STALE)
}

/// Removes the temporary files that processes left in a folder when they ended before they were done;
/// how many went.
pub(super) fn sweep(folder: &Path) -> usize {
    let stale = temporaries(folder).into_iter().filter(|path| is_stale(path));
    stale.filter(|path| fs::remove_file(path).is_ok()).count()
}

/// The files of a folder with temporary names.
pub(super) fn temporaries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let of_ours = entries.flatten().filter(|entry| {
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        is_file && entry.file_name().to_str().is_some_and(is_temporary)
    });
    of_ours.map(|entry| entry.path()).collect()
}

/// Opens a regular file to read it. A link is not followed, and a pipe not waited for.
///
/// # Errors
/// Invalid data for all that is no file; what the system says otherwise.
pub(super) fn open_file(path: &Path) -> io::Result<File> {
    let invalid = |what: &str| io::Error::new(ErrorKind::InvalidData, what);
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_symlink() {
        return Err(invalid("a link, which is not followed"));
    }
    if !kind.is_file() {
        return Err(invalid("not a file"));
    }
    // It may be another by now; neither flag changes anything about a file.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(invalid("not a file"));
    }
    Ok(file)
}

/// The first bytes of a file, one more than the most at most.
pub(super) fn read_most(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("listed").flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_name_that_is_taken_stays_with_whoever_took_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let taken = folder.path().join(".00000000000000aa.new");
        fs::write(&taken, "half of ano").expect("written");
        let mut next = [0xaau64, 0xab].into_iter().map(|number| format!(".{number:016x}.new"));
        let path = folder.path().join("a");
        write_beside(&path, b"1", &mut || next.next().expect("tries no third")).expect("written");
        assert_eq!(fs::read_to_string(&path).expect("there"), "1");
        assert_eq!(fs::read_to_string(&taken).expect("left"), "half of ano");

        let mut always = || ".00000000000000aa.new".to_owned();
        let error = write_beside(&path, b"2", &mut always).expect_err("none is free");
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(names(folder.path()), [".00000000000000aa.new", "a"]);
        // What cannot be replaced leaves nothing behind.
        let blocked = folder.path().join("b");
        fs::create_dir(&blocked).expect("made");
        assert!(write_whole(&blocked, b"3").is_err());
        assert_eq!(names(folder.path()), [".00000000000000aa.new", "a", "b"]);
    }

    #[test]
    fn only_old_temporaries_of_this_form_are_swept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, new) = (temporary_name(), temporary_name());
        assert!(old != new && is_temporary(&old), "{old} {new}");
        let others = [".swp", ".1-2.new", "0123456789abcdef.new", ".0123456789ABCDEF.new", ".git"];
        assert!(!others.iter().any(|name| is_temporary(name)));
        let long_ago = SystemTime::now() - STALE * 2;
        for name in others.iter().copied().chain([old.as_str()]) {
            let file = File::create(folder.path().join(name)).expect("made");
            file.set_modified(long_ago).expect("set");
        }
        File::create(folder.path().join(&new)).expect("made");
        sweep(folder.path());
        let left = names(folder.path());
        assert!(left.len() == others.len() + 1 && left.contains(&new), "{left:?}");
    }

    #[test]
    fn links_pipes_and_folders_are_no_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "x").expect("written");
        assert_eq!(read_most(&open_file(&at("file")).expect("opens"), 8).expect("reads"), b"x");
        std::os::unix::fs::symlink(at("file"), at("link")).expect("linked");
        let made = std::process::Command::new("mkfifo").arg(at("pipe")).status().expect("mkfifo runs");
        assert!(made.success());
        fs::create_dir(at("folder")).expect("made");
        for (name, why) in [("link", "a link"), ("pipe", "not a file"), ("folder", "not a file")] {
            let error = open_file(&at(name)).expect_err(name);
            assert!(error.to_string().contains(why), "{name}: {error}");
        }
        assert_eq!(open_file(&at("none")).expect_err("none").kind(), ErrorKind::NotFound);
    }
}
