//! The file a snapshot goes to: asked about before anything is measured for it, and written as a whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::failure::{Failure, Outcome};

/// A file that could be written when it was asked about.
#[derive(Debug)]
pub(crate) struct Snapshot {
    path: PathBuf,
    /// Written where it is: a device, which no other file takes the place of.
    in_place: bool,
}

impl Snapshot {
    /// Asks whether a file can be written, and leaves everything as it is.
    pub(crate) fn at(path: &Path) -> Outcome<Snapshot> {
        let failed = |error: io::Error| {
            Failure::work(format!(
                "the snapshot {} cannot be written: {error}; name another file",
                path.display()
            ))
        };
        Snapshot::look(path).map_err(failed)
    }

    fn look(path: &Path) -> io::Result<Snapshot> {
        // Where a link leads, a file is to be.
        let path = match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            found => found?,
        };
        match fs::metadata(&path) {
            Ok(found) if found.is_file() || found.file_type().is_char_device() => {
                let in_place = !found.is_file();
                // A pipe may have come in its place, and opening one would wait for its other end.
                OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(&path)?;
                if !in_place {
                    Snapshot::try_beside(&path)?;
                }
                Ok(Snapshot { path, in_place })
            }
            Ok(_) => Err(io::Error::other("it is no file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Snapshot::try_beside(&path)?;
                Ok(Snapshot { path, in_place: false })
            }
            Err(error) => Err(error),
        }
    }

    fn beside(path: &Path) -> PathBuf {
        path.with_added_extension(format!("partial-{}", std::process::id()))
    }

    fn try_beside(path: &Path) -> io::Result<()> {
        let beside = Snapshot::beside(path);
        OpenOptions::new().write(true).create_new(true).open(&beside)?;
        fs::remove_file(&beside)
    }

    /// Writes the text: whoever reads the file sees all of it, or what was there before.
    pub(crate) fn write(&self, text: &str) -> Outcome<&Path> {
        let beside = Snapshot::beside(&self.path);
        let written = if self.in_place {
            fs::write(&self.path, text)
        } else {
            let whole = || {
                let mut file = OpenOptions::new().write(true).create_new(true).open(&beside)?;
                file.write_all(text.as_bytes())?;
                fs::rename(&beside, &self.path)
            };
            whole()
        };
        written.map_err(|error| {
            // There may be none; the first error is the one to tell.
            let _ = fs::remove_file(&beside);
            Failure::work(format!("the snapshot {} is not written: {error}", self.path.display()))
        })?;
        Ok(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> String {
        match Snapshot::at(path) {
            Err(Failure::Work(sentence)) => sentence,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_cannot_be_written_is_told_at_once_and_nothing_is_left() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(refused(&folder.path().join("no/where.json")).contains("No such file"));
        assert!(refused(folder.path()).contains("it is no file"));
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
        assert!(refused(&pipe).contains("it is no file"));
        fs::remove_file(&pipe).expect("removed");
        assert!(Snapshot::at(&folder.path().join("a.json")).is_ok());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn a_snapshot_takes_the_place_of_the_one_before() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.json");
        for text in ["a long first one", "second"] {
            let snapshot = Snapshot::at(&path).expect("can be written");
            assert!(snapshot.write(text).is_ok());
            assert_eq!(fs::read_to_string(&path).expect("there"), text);
        }
        let link = folder.path().join("link.json");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert!(Snapshot::at(&link).expect("can be written").write("third").is_ok());
        assert_eq!(fs::read_to_string(&path).expect("there"), "third");
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2);
        assert!(Snapshot::at(Path::new("/dev/null")).expect("a device").write("x").is_ok());
    }
}
