//! What a store holds, for people: listed and cleared.
//!
//! A store may be named anywhere, also where other people's files are. Only real folders that are named
//! as a device key are looked into, and in them only regular files that begin as a store writes them are
//! its own; no link is followed. All else is counted and left alone.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::autotune::entries_of;
use super::belief;
use super::device_key::DeviceKey;
use super::entry::{BYTES_MAX, Entry, is_of_a_store};
use super::file_name::{file_name, unescape};
use super::whole::{is_temporary, open_file, read_most, sweep, temporaries};

/// One file of a store.
#[derive(Debug)]
pub struct Listed {
    /// The device's key.
    pub device: String,
    /// The file.
    pub path: PathBuf,
    /// When it was written, if the system says.
    pub written: Option<SystemTime>,
    /// The newest it holds, or why it holds nothing that serves.
    pub entry: Result<Entry, String>,
}

impl Listed {
    /// The entry's name; the file's where it holds none.
    pub fn name(&self) -> String {
        match &self.entry {
            Ok(entry) => entry.name.clone(),
            Err(_) => self.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

/// What is in a store's folder.
#[derive(Default, Debug)]
pub struct Inventory {
    /// Its own files, by device and name.
    pub entries: Vec<Listed>,
    /// How many files and folders beside them are not its own.
    pub others: usize,
    /// What could not be looked into: each a sentence that names it.
    pub troubles: Vec<String>,
    /// The folders of devices.
    folders: Vec<PathBuf>,
}

/// What clearing came to.
#[derive(Default, Debug)]
pub struct Cleared {
    /// How many files went.
    pub removed: usize,
    /// How many files and folders are not the store's own and were left alone.
    pub others: usize,
    /// What could not be looked into or removed: each a sentence that names it.
    pub troubles: Vec<String>,
}

/// Everything in a store. A directory that is not there holds nothing.
///
/// # Errors
/// When the directory cannot be read, or is not believed because others may write it.
pub fn inventory(directory: &Path) -> io::Result<Inventory> {
    let mut found = Inventory::default();
    belief::check_directory(directory).map_err(|why| io::Error::new(ErrorKind::PermissionDenied, why))?;
    let paths = match children(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(found),
        Err(error) => {
            return Err(io::Error::new(error.kind(), format!("{}: {error}", directory.display())));
        }
        Ok(paths) => paths,
    };
    for path in paths {
        match device_of(&path) {
            Some(device) => found.add_folder(&path, &device),
            None => found.others += 1,
        }
    }
    found.entries.sort_by_cached_key(|listed| (listed.device.clone(), listed.name()));
    Ok(found)
}

/// The files of a store alone: [`Inventory::entries`].
///
/// # Errors
/// As [`inventory`].
pub fn list(directory: &Path) -> io::Result<Vec<Listed>> {
    Ok(inventory(directory)?.entries)
}

/// Removes files of a store: those that `chosen` answers for. Folders that this empties go as well.
///
/// # Errors
/// As [`inventory`]. A file that stays against all trying is a trouble; the others go.
pub fn clear(directory: &Path, chosen: impl Fn(&Listed) -> bool) -> io::Result<Cleared> {
    let Inventory { entries, others, mut troubles, folders } = inventory(directory)?;
    // By folder: how many went, how many stay.
    let mut counts: BTreeMap<&Path, (usize, usize)> =
        folders.iter().map(|folder| (folder.as_path(), (0, 0))).collect();
    for listed in &entries {
        let count = listed.path.parent().and_then(|folder| counts.get_mut(folder));
        let Some((removed, stay)) = count else { continue };
        if !chosen(listed) {
            *stay += 1;
            continue;
        }
        // It may be another file by now.
        match look(&listed.path).and_then(|seen| seen.map(|_| fs::remove_file(&listed.path)).transpose()) {
            Ok(Some(())) => *removed += 1,
            Ok(None) => *stay += 1,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                *stay += 1;
                troubles.push(format!("{}: {error}", listed.path.display()));
            }
        }
    }
    for (&folder, &(removed, stay)) in &counts {
        let swept = sweep(folder);
        if stay > 0 || removed + swept == 0 {
            continue;
        }
        if removed > 0 {
            // Whoever is writing one notices, and writes it again.
            temporaries(folder).iter().for_each(|path| drop(fs::remove_file(path)));
        }
        // Refused for a folder that still holds something, which is what is wanted.
        let _ = fs::remove_dir(folder);
    }
    let removed = counts.values().map(|(removed, _)| removed).sum();
    Ok(Cleared { removed, others, troubles })
}

impl Inventory {
    fn add_folder(&mut self, folder: &Path, device: &str) {
        if let Err(why) = belief::check_folder(folder) {
            return self.troubles.push(why);
        }
        let paths = match children(folder) {
            Ok(paths) => paths,
            Err(error) => return self.troubles.push(format!("{}: {error}", folder.display())),
        };
        self.folders.push(folder.to_owned());
        for path in paths {
            let metadata = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file);
            let name = path.file_name().and_then(|name| name.to_str());
            if metadata.is_some() && name.is_some_and(is_temporary) {
                continue;
            }
            match look(&path) {
                Ok(Some(entry)) => {
                    let written = metadata.and_then(|metadata| metadata.modified().ok());
                    self.entries.push(Listed { device: device.to_owned(), path, written, entry });
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) if error.kind() != ErrorKind::InvalidData => {
                    self.troubles.push(format!("{}: {error}", path.display()));
                }
                Ok(None) | Err(_) => self.others += 1,
            }
        }
    }
}

/// The key of the device that a folder is of; nothing for all that is no real folder so named.
fn device_of(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let key = unescape(name).filter(|key| file_name(key) == name && DeviceKey::parse(key).is_some())?;
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()).then_some(key)
}

/// What a file of a store holds, or why that does not serve; nothing for a file that is not of a store.
fn look(path: &Path) -> io::Result<Option<Result<Entry, String>>> {
    let file = open_file(path)?;
    let content = read_most(&file, BYTES_MAX)?;
    if !is_of_a_store(&content) {
        return Ok(None);
    }
    let newest = || {
        belief::check_file(path, &file)?;
        entries_of(&content)?.into_iter().next().ok_or_else(|| "no entry".to_owned())
    };
    Ok(Some(newest()))
}

fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::tune::store::Autotune;

    fn key(backend: &str) -> DeviceKey {
        DeviceKey::new(backend, &crate::filter::recorded::h200())
    }

    #[test]
    fn entries_are_listed_and_cleared_by_choice_and_garbage_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("tune");
        assert!(list(&directory).expect("nothing").is_empty());
        assert_eq!(clear(&directory, |_| true).expect("nothing").removed, 0);

        let store = Autotune::open(Some(&directory), &key("first"));
        store.remember("partWgs", "8");
        store.remember("evil/../name", "1");
        let device = store.folder().expect("known");
        fs::write(device.join("zz"), "garbage").expect("written");
        fs::write(device.join("cut"), "cajeta-tune 1\nname cut\n").expect("written");
        fs::write(device.join(".0123456789abcdef.new"), "").expect("written");

        let found = inventory(&directory).expect("listed");
        let names: Vec<String> = found.entries.iter().map(Listed::name).collect();
        assert_eq!(names, ["cut", "evil/../name", "partWgs"]);
        assert!(found.entries.iter().all(|listed| listed.device == key("first").to_string()));
        assert!(found.entries[0].entry.is_err() && found.entries[1].written.is_some());
        assert_eq!((found.others, found.troubles.len()), (1, 0));

        let cleared = clear(&directory, |listed| listed.name() == "partWgs").expect("cleared");
        assert_eq!((cleared.removed, cleared.others), (1, 1));
        assert!(device.join(".0123456789abcdef.new").exists(), "somebody may be writing it");
        assert_eq!(clear(&directory, |_| true).expect("cleared").removed, 2);
        let left: Vec<PathBuf> = children(device).expect("still there");
        assert_eq!(left, [device.join("zz")]);
        store.remember("again", "1");
        fs::remove_file(device.join("zz")).expect("removed");
        assert_eq!(clear(&directory, |_| true).expect("cleared").removed, 1);
        assert!(!device.exists() && directory.exists(), "an emptied folder goes too");
    }

    #[test]
    fn nothing_but_the_stores_own_files_goes_and_no_link_is_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let elsewhere = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let own = Autotune::open(Some(folder.path()), &key("first"));
        own.remember("a", "1");
        let text = fs::read(own.folder().expect("known").join("a")).expect("there");
        // A project, and things of a store where none belongs.
        for name in ["src", "empty", "src/deep"] {
            fs::create_dir(at(name)).expect("made");
        }
        fs::write(at("src/main.rs"), "fn main() {}").expect("written");
        fs::write(at("src/a"), &text).expect("written");
        fs::write(at("a"), &text).expect("written");
        // A link named as a device, and links among a device's files.
        let other = Autotune::open(Some(elsewhere.path()), &key("second"));
        other.remember("b", "1");
        let of_other = other.folder().expect("known");
        symlink(of_other, at(&file_name(&key("second").to_string()))).expect("linked");
        symlink(of_other.join("b"), own.folder().expect("known").join("b")).expect("linked");
        let empty = at(&file_name(&key("third").to_string()));
        fs::create_dir(&empty).expect("made");
        fs::set_permissions(&empty, fs::Permissions::from_mode(0o700)).expect("set");

        assert_eq!(list(folder.path()).expect("listed").len(), 1);
        let cleared = clear(folder.path(), |_| true).expect("cleared");
        // src, empty, a, the link of the second device, and the one that leads to b.
        assert_eq!((cleared.removed, cleared.others, cleared.troubles), (1, 5, Vec::new()));
        for path in
            [at("src/main.rs"), at("src/a"), at("a"), at("empty"), at("src/deep"), of_other.join("b"), empty]
        {
            assert!(path.exists(), "{}", path.display());
        }
        assert!(fs::symlink_metadata(own.folder().expect("known").join("b")).is_ok());
    }

    #[test]
    fn what_cannot_be_looked_into_is_named_and_the_rest_is_done() {
        let folder = tempfile::tempdir().expect("a folder");
        let [shared, closed, fine] = ["a-shared", "b-closed", "c-fine"].map(|backend| {
            let store = Autotune::open(Some(folder.path()), &key(backend));
            store.remember("a", "1");
            store.folder().expect("known").to_path_buf()
        });
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        };
        mode(&shared, 0o777);
        mode(&closed, 0o000);
        // Whoever may read everything reads this too.
        let reads_all = fs::read_dir(&closed).is_ok();
        let found = inventory(folder.path()).expect("listed");
        assert_eq!(found.entries.len(), 1 + usize::from(reads_all));
        assert!(found.troubles[0].contains("a-shared") && found.troubles[0].contains("chmod"), "{found:?}");
        assert!(reads_all || found.troubles[1].contains("b-closed"), "{found:?}");
        let cleared = clear(folder.path(), |_| true).expect("cleared");
        assert_eq!(cleared.troubles.len(), found.troubles.len());
        if !reads_all {
            mode(&closed, 0o700);
        }
        assert!(!fine.exists() && shared.join("a").exists());

        mode(folder.path(), 0o777);
        let error = clear(folder.path(), |_| true).expect_err("everybody's").to_string();
        assert!(error.contains("writable by everybody"), "{error}");
        mode(folder.path(), 0o700);
    }
}
