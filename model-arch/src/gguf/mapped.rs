//! Which addresses are pages of model files: for a signal handler that must tell what a fault was about.
//!
//! A mapped file that another process cuts short leaves pages that cannot be read: touching one raises SIGBUS.
//! The handler (it is the program's, not this library's) asks [`at`] whose page that was. It may be running
//! anywhere, so the answer takes no lock, allocates nothing, and reads atomics only.

use memmap2::Mmap;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Files that can be told apart at a time. Any further one is not known here, and faults in it have no name.
const MAX_FILES: usize = 16;
/// Bytes kept of a path; of a longer one the end, which says more.
const MAX_PATH_BYTES: usize = 512;

/// One mapping. `start` is 0 while the others do not hold.
struct Entry {
    start: AtomicUsize,
    len: AtomicUsize,
    path: [AtomicU8; MAX_PATH_BYTES],
    path_len: AtomicUsize,
}

static ENTRIES: [Entry; MAX_FILES] = [const {
    Entry {
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        path: [const { AtomicU8::new(0) }; MAX_PATH_BYTES],
        path_len: AtomicUsize::new(0),
    }
}; MAX_FILES];

/// Whose each entry is. Only registering and forgetting look here; the lock keeps them apart.
static OWNERS: Mutex<[Weak<Mmap>; MAX_FILES]> = Mutex::new([const { Weak::new() }; MAX_FILES]);

/// A page of a model file.
#[derive(Debug)]
pub struct MappedPage {
    path: [u8; MAX_PATH_BYTES],
    path_len: usize,
    /// Where in the file the address lies, in bytes.
    pub offset: usize,
}

impl MappedPage {
    /// The file's path, without control characters; of a very long one the end.
    pub fn path(&self) -> &[u8] {
        self.path.get(..self.path_len).unwrap_or_default()
    }
}

/// The model file that has `address` among its pages. Safe to ask in a signal handler.
pub fn at(address: usize) -> Option<MappedPage> {
    ENTRIES.iter().find_map(|entry| {
        let start = entry.start.load(Ordering::Acquire);
        let offset = address.checked_sub(start).filter(|_| start != 0)?;
        // A mapping ends with its last page, not with the file.
        let len = entry.len.load(Ordering::Relaxed).checked_next_multiple_of(PAGE)?;
        if offset >= len {
            return None;
        }
        let mut page = MappedPage { path: [0; MAX_PATH_BYTES], path_len: 0, offset };
        page.path_len = entry.path_len.load(Ordering::Relaxed).min(MAX_PATH_BYTES);
        page.path.iter_mut().zip(&entry.path).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
        Some(page)
    })
}

/// The smallest page of the machines this runs on; files end somewhere inside their last one.
const PAGE: usize = 4096;

/// Makes a mapping known, until [`forget`] or until it is gone and its place is needed.
pub(super) fn register(map: &Arc<Mmap>, path: &Path) {
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let free = owners.iter().position(|owner| owner.strong_count() == 0);
    let Some((entry, owner)) = free.and_then(|free| ENTRIES.get(free).zip(owners.get_mut(free))) else {
        return;
    };
    *owner = Arc::downgrade(map);
    // Between these two stores the entry is nobody's, so no one reads a half-written one.
    entry.start.store(0, Ordering::SeqCst);
    let text = path.display().to_string();
    let shown: Vec<u8> = text.bytes().map(|byte| if byte.is_ascii_control() { b'?' } else { byte }).collect();
    let tail = shown.get(shown.len().saturating_sub(MAX_PATH_BYTES)..).unwrap_or_default();
    tail.iter().zip(&entry.path).for_each(|(from, to)| to.store(*from, Ordering::Relaxed));
    entry.path_len.store(tail.len(), Ordering::Relaxed);
    entry.len.store(map.len(), Ordering::Relaxed);
    entry.start.store(map.as_ptr().addr(), Ordering::Release);
}

/// Forgets a mapping that nobody else holds: its addresses may soon be something else's.
pub(super) fn forget(map: &Arc<Mmap>) {
    if Arc::strong_count(map) > 1 {
        return;
    }
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    for (owner, entry) in owners.iter_mut().zip(&ENTRIES) {
        if owner.as_ptr() == Arc::as_ptr(map) {
            entry.start.store(0, Ordering::SeqCst);
            *owner = Weak::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::GgufFile;
    use crate::gguf::writer::Header;

    fn file(folder: &Path, name: &str) -> GgufFile {
        let path = folder.join(name);
        let mut header = Header::new();
        header.set("x", "y".repeat(100_000));
        std::fs::write(&path, header.begin(Vec::new()).unwrap().finish().unwrap()).unwrap();
        GgufFile::open(&path).unwrap()
    }

    fn name_at(address: usize) -> Option<(String, usize)> {
        at(address).map(|page| (String::from_utf8_lossy(page.path()).into_owned(), page.offset))
    }

    #[test]
    fn pages_have_a_name_while_they_are_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let first = file(folder.path(), "first\n.gguf");
        let start = first.map().as_ptr().addr();
        let (name, offset) = name_at(start + 70_000).unwrap();
        assert!(name.ends_with("/first?.gguf") && offset == 70_000, "{name:?} {offset}");
        assert!(name_at(0).is_none());
        // Somebody still reads the pages: they keep their name.
        let pages = first.pages();
        drop(first);
        assert!(name_at(start).is_some());
        drop(pages);
        // Known or not by now, what was there gives way to new files, of which all have names.
        let files: Vec<GgufFile> = (0..4).map(|n| file(folder.path(), &n.to_string())).collect();
        for file in &files {
            let (name, offset) = name_at(file.map().as_ptr().addr()).unwrap();
            assert_eq!((name.as_str(), offset), (file.path().to_str().unwrap(), 0));
        }
        let addresses: Vec<usize> = files.iter().map(|file| file.map().as_ptr().addr()).collect();
        drop(files);
        let mut names = addresses.into_iter().filter_map(name_at).map(|(name, _)| name);
        assert!(names.all(|name| !name.starts_with(folder.path().to_str().unwrap())));
    }

    #[test]
    fn a_very_long_path_is_known_by_its_end() {
        let map = Arc::new(memmap2::MmapMut::map_anon(10).unwrap().make_read_only().unwrap());
        register(&map, Path::new(&format!("{}/model.gguf", "a".repeat(2000))));
        let page = at(map.as_ptr().addr() + 9).unwrap();
        assert!(page.path().len() == MAX_PATH_BYTES && page.path().ends_with(b"a/model.gguf"));
        forget(&map);
        assert!(at(map.as_ptr().addr()).is_none());
    }
}
