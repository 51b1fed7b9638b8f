//! What a store holds, for people: listed and cleared.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::autotune::read_entries;
use super::entry::Entry;
use super::file_name::unescape;

/// One file of a store.
#[derive(Debug)]
pub struct Listed {
    /// The device's key.
    pub device: String,
    /// The file.
    pub path: PathBuf,
    /// When it was written, if the system says.
    pub written: Option<SystemTime>,
    /// The newest it holds, or why it holds nothing.
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

/// Everything in a store, by device and name. A directory that is not there holds nothing.
///
/// # Errors
/// When the directory cannot be read.
pub fn list(directory: &Path) -> io::Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for folder in children(directory)?.into_iter().filter(|path| path.is_dir()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let device = unescape(&name).unwrap_or_else(|| name.to_string());
        for path in children(&folder)? {
            listed.push(Listed {
                device: device.clone(),
                written: fs::metadata(&path).and_then(|metadata| metadata.modified()).ok(),
                entry: newest(&path),
                path,
            });
        }
    }
    listed.sort_by_cached_key(|listed| (listed.device.clone(), listed.name()));
    Ok(listed)
}

/// Removes files of a store: those that `chosen` answers for. Folders left empty go as well. Returns how
/// many files went.
///
/// # Errors
/// When the directory cannot be read or a file cannot be removed; others may be gone by then.
pub fn clear(directory: &Path, chosen: impl Fn(&Listed) -> bool) -> io::Result<usize> {
    let mut removed = 0;
    for listed in list(directory)?.iter().filter(|listed| chosen(listed)) {
        // Of what is no file nobody knows what it is for.
        if listed.path.is_file() {
            match fs::remove_file(&listed.path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other.map(|()| removed += 1)?,
            }
        }
    }
    for folder in children(directory)?.into_iter().filter(|path| path.is_dir()) {
        // Refused for a folder that still holds something, which is what is wanted.
        let _ = fs::remove_dir(folder);
    }
    Ok(removed)
}

/// The newest entry of a file.
fn newest(path: &Path) -> Result<Entry, String> {
    let entries = read_entries(path).map_err(|error| error.to_string())?;
    entries.into_iter().next().ok_or_else(|| "no entry".to_owned())
}

fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::store::{Autotune, DeviceKey};

    #[test]
    fn entries_and_garbage_are_listed_and_cleared_by_choice() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("tune");
        assert!(list(&directory).expect("nothing").is_empty());
        assert_eq!(clear(&directory, |_| true).expect("nothing"), 0);

        let key = DeviceKey::new("first", &crate::filter::recorded::h200());
        let store = Autotune::open(Some(&directory), &key);
        store.remember("partWgs", "8");
        store.remember("evil/../name", "1");
        fs::write(store.folder().expect("known").join("zz"), "garbage").expect("written");

        let all = list(&directory).expect("listed");
        let names: Vec<String> = all.iter().map(Listed::name).collect();
        assert_eq!(names, ["evil/../name", "partWgs", "zz"]);
        assert!(all.iter().all(|listed| listed.device == key.to_string()));
        assert!(all[2].entry.is_err() && all[1].written.is_some());

        assert_eq!(clear(&directory, |listed| listed.name() == "partWgs").expect("cleared"), 1);
        assert_eq!(clear(&directory, |_| true).expect("cleared"), 2);
        assert!(!store.folder().expect("known").exists(), "an empty folder goes too");
    }
}
