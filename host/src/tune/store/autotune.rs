//! Remembers and recalls answers: in memory always, in files where there is somewhere to write.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::belief;
use super::build::BuildId;
use super::device_key::DeviceKey;
use super::directory::VARIABLE;
use super::entry::{Answer, BYTES_MAX, Entry};
use super::file_name::file_name;
use super::whole::{open_file, read_most, sweep, write_whole};
use crate::record::{Record, TuneDropped, TuneStore};

/// Builds whose answers one file keeps.
const BUILDS_MAX: usize = 16;

/// How bytes get into a file as a whole; tests fill the disk here.
type WriteWhole = fn(&Path, &[u8]) -> io::Result<()>;

/// The store of one device's answers.
#[derive(Debug)]
pub struct Autotune {
    /// The device's folder; `None` when nothing is kept between runs.
    folder: Option<PathBuf>,
    memory: Mutex<Memory>,
    write: WriteWhole,
    /// Whether it was said that nothing can be kept.
    complained: AtomicBool,
}

#[derive(Default, Debug)]
struct Memory {
    entries: BTreeMap<String, Entry>,
    /// Files already reported as unusable.
    dropped: BTreeSet<String>,
}

impl Autotune {
    /// The store of a device in a directory (see [`super::tune_directory`]). What earlier processes left
    /// half written is removed. A folder that others may write is not believed: that is said, and nothing
    /// is kept.
    pub fn open(directory: Option<&Path>, key: &DeviceKey) -> Autotune {
        let folder = directory.zip(key.known()).and_then(|(directory, key)| {
            let folder = directory.join(file_name(key));
            if let Err(why) = belief::check_directory(directory).and_then(|()| belief::check_folder(&folder))
            {
                refuse(&folder, &why);
                return None;
            }
            sweep(&folder);
            Some(folder)
        });
        let complained = AtomicBool::new(false);
        Autotune { folder, memory: Mutex::default(), write: write_whole, complained }
    }

    /// A store that keeps nothing between runs.
    pub fn off() -> Autotune {
        Autotune::open(None, &DeviceKey::unknown())
    }

    /// The device's folder, if anything is kept.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Remembers an answer that holds for any build.
    pub fn remember(&self, name: &str, answer: impl Into<Answer>) {
        self.keep(Entry { name: name.to_owned(), build: None, answer: answer.into() });
    }

    /// Remembers an answer of a build.
    pub fn remember_for(&self, name: &str, answer: impl Into<Answer>, build: &BuildId) {
        let build = Some(build.as_str().to_owned());
        self.keep(Entry { name: name.to_owned(), build, answer: answer.into() });
    }

    /// Remembers an answer for this run alone.
    pub fn remember_now(&self, name: &str, answer: impl Into<Answer>, build: &BuildId) {
        let build = Some(build.as_str().to_owned());
        let entry = Entry { name: name.to_owned(), build, answer: answer.into() };
        self.memory().entries.insert(name.to_owned(), entry);
    }

    /// The answer of this name, whatever build it is of.
    pub fn recall(&self, name: &str) -> Option<Answer> {
        if let Some(entry) = self.memory().entries.get(name) {
            return Some(entry.answer.clone());
        }
        let entry = self.read(name).into_iter().next()?;
        self.memory().entries.insert(name.to_owned(), entry.clone());
        Some(entry.answer)
    }

    /// The answer of this name for a build. Where there are answers of other builds alone, they are
    /// dropped and that is reported; the next ones remembered take their place.
    pub fn recall_for(&self, name: &str, build: &BuildId) -> Option<Answer> {
        let holds = |entry: &Entry| entry.build.as_deref() == Some(build.as_str());
        if let Some(entry) = self.memory().entries.get(name).filter(|entry| holds(entry)) {
            return Some(entry.answer.clone());
        }
        let entries = self.read(name);
        let Some(entry) = entries.iter().find(|entry| holds(entry)).cloned() else {
            if let Some(other) = entries.first() {
                let of = other.build.as_deref().unwrap_or("any build");
                self.drop_entry(name, format!("`{}` is of build {of}, not {build}", other.answer.value));
            }
            return None;
        };
        self.memory().entries.insert(name.to_owned(), entry.clone());
        Some(entry.answer)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, entry: Entry) {
        if let Some(folder) = &self.folder {
            let path = folder.join(file_name(&entry.name));
            // Answers of other builds stay a while: several kernels may ask under one name.
            let mut entries = read_entries(&path).unwrap_or_default();
            entries.retain(|other| other.name == entry.name && other.build != entry.build);
            entries.insert(0, entry.clone());
            let text: String = entries.iter().take(BUILDS_MAX).map(Entry::to_text).collect();
            let made = create_folder(folder).map_err(|error| (folder.as_path(), error));
            let written = made
                .and_then(|()| (self.write)(&path, text.as_bytes()).map_err(|error| (path.as_path(), error)));
            if let Err((at, error)) = written
                && !self.complained.swap(true, Ordering::Relaxed)
            {
                Record::from(TuneStore {
                    folder: at.display().to_string(),
                    event: format!(
                        "{error}; measured choices are used in this run and not kept; {}, or name another folder in {VARIABLE}",
                        remedy(&error)
                    ),
                })
                .emit();
            }
        }
        self.memory().entries.insert(entry.name.clone(), entry);
    }

    /// The entries in the file of this name, the newest first.
    fn read(&self, name: &str) -> Vec<Entry> {
        let Some(folder) = &self.folder else { return Vec::new() };
        match read_entries(&folder.join(file_name(name))) {
            Ok(mut entries) => {
                entries.retain(|entry| entry.name == name);
                if entries.is_empty() {
                    self.drop_entry(name, "its file is of another name".to_owned());
                }
                entries
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                self.drop_entry(name, error.to_string());
                Vec::new()
            }
        }
    }

    fn drop_entry(&self, name: &str, why: String) {
        if self.memory().dropped.insert(name.to_owned()) {
            Record::from(TuneDropped { entry: name.to_owned(), why }).emit();
        }
    }
}

/// The entries in a file, at least one. A link, a folder, a pipe, a file that others may write, or
/// anything too large or not whole is invalid data.
fn read_entries(path: &Path) -> io::Result<Vec<Entry>> {
    let file = open_file(path)?;
    belief::check_file(path, &file).map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
    entries_of(&read_most(&file, BYTES_MAX)?)
        .map_err(|why| io::Error::new(ErrorKind::InvalidData, format!("{}: {why}", path.display())))
}

/// The entries in a file's content, at least one, or why there is none.
pub(super) fn entries_of(content: &[u8]) -> Result<Vec<Entry>, &'static str> {
    if content.len() as u64 > BYTES_MAX {
        return Err("too large for an entry");
    }
    let entries = Entry::all_from_text(std::str::from_utf8(content).map_err(|_| "not text")?);
    if entries.is_empty() { Err("not a whole entry") } else { Ok(entries) }
}

fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// What to do about something that cannot be written.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::IsADirectory | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "remove what is in its place"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room",
        _ => "make its folder writable",
    }
}

/// Says once in a process that a folder is no store.
fn refuse(folder: &Path, why: &str) {
    static SAID: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(folder.to_owned()) {
        let event = format!(
            "not believed: {why}, or name a folder of your own in {VARIABLE}; until then choices are measured for each run alone"
        );
        Record::from(TuneStore { folder: folder.display().to_string(), event }).emit();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;
    use crate::tune::store::BuildParts;

    fn key() -> DeviceKey {
        DeviceKey::new("first", &crate::filter::recorded::rtx_4090())
    }

    fn build(driver: &str) -> BuildId {
        let parts = BuildParts { device: "d".into(), driver: driver.into(), plugin: "1".into() };
        BuildId::new(&parts, [("a", Some([1; 32]))])
    }

    fn value(answer: Option<Answer>) -> Option<String> {
        answer.map(|answer| answer.value)
    }

    #[test]
    fn an_answer_outlives_the_process_that_found_it_and_serves_no_other_build_or_device() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = Some(folder.path());
        let name = "shape.q4kTcTile.512x4096x4096";
        let store = Autotune::open(directory, &key());
        store.remember_for(name, "q4kTcTile128", &build("1"));
        assert_eq!(value(store.recall_for(name, &build("1"))), Some("q4kTcTile128".into()));

        let later = Autotune::open(directory, &key());
        assert_eq!(value(later.recall_for(name, &build("1"))), Some("q4kTcTile128".into()));
        assert_eq!(later.recall_for(name, &build("2")), None);
        assert_eq!(value(later.recall(name)), Some("q4kTcTile128".into()), "asked for any build");

        let other = DeviceKey::new("second", &crate::filter::recorded::rtx_4090());
        assert_eq!(Autotune::open(directory, &other).recall(name), None);
        let unknown = Autotune::open(directory, &DeviceKey::unknown());
        assert_eq!((unknown.folder(), unknown.recall(name)), (None, None), "an unknown part shares nothing");

        later.remember_for(name, "q4kTcTile64", &build("2"));
        let newest = Autotune::open(directory, &key());
        assert_eq!(value(newest.recall_for(name, &build("2"))), Some("q4kTcTile64".into()));
        assert_eq!(value(newest.recall_for(name, &build("1"))), Some("q4kTcTile128".into()), "as it was");
        for driver in 3..30 {
            newest.remember_for(name, "x", &build(&driver.to_string()));
        }
        assert_eq!(Autotune::open(directory, &key()).recall_for(name, &build("1")), None, "the oldest go");
    }

    #[test]
    fn what_is_for_this_run_alone_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Autotune::open(Some(folder.path()), &key());
        store.remember_now("a", "1", &build("1"));
        assert_eq!(value(store.recall_for("a", &build("1"))), Some("1".into()));
        assert_eq!(Autotune::open(Some(folder.path()), &key()).recall("a"), None);
    }

    #[test]
    fn a_store_that_cannot_be_written_still_serves_its_run() {
        let folder = tempfile::tempdir().expect("a folder");
        // A file where the folder should be fails for every user, as a read-only disk does.
        let blocked = folder.path().join("file");
        fs::write(&blocked, "in the way").expect("written");
        let mut full = Autotune::open(Some(folder.path()), &key());
        full.write = |path, bytes| {
            let beside = path.with_file_name(".half");
            fs::write(&beside, &bytes[..bytes.len() / 2])?;
            fs::remove_file(&beside)?;
            Err(io::ErrorKind::StorageFull.into())
        };
        for store in [Autotune::open(Some(&blocked), &key()), full] {
            for name in ["a", "b"] {
                store.remember_for(name, "1", &build("1"));
                assert_eq!(value(store.recall_for(name, &build("1"))), Some("1".into()));
            }
            assert!(store.complained.load(Ordering::Relaxed));
        }
        assert_eq!(fs::read_to_string(&blocked).expect("kept"), "in the way");
    }

    #[test]
    fn garbage_is_dropped_and_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Autotune::open(Some(folder.path()), &key());
        store.remember_for("seed", "1", &build("1"));
        let device = store.folder().expect("known").to_path_buf();
        fs::write(device.join("a"), [0xff, 0, 7]).expect("written");
        fs::write(device.join("b"), vec![b'x'; 1 << 20]).expect("written");
        fs::create_dir(device.join("c")).expect("made");
        fs::copy(device.join("seed"), device.join("d")).expect("copied");
        fs::write(device.join("e"), "").expect("written");
        for name in ["a", "b", "c", "d", "e"] {
            assert_eq!(store.recall_for(name, &build("1")), None, "{name}");
        }
        for name in ["a", "b", "d", "e"] {
            store.remember_for(name, "2", &build("1"));
            let later = Autotune::open(Some(folder.path()), &key());
            assert_eq!(value(later.recall_for(name, &build("1"))), Some("2".into()), "{name}");
        }
    }

    /// What is warned of meanwhile.
    fn said(work: impl FnOnce()) -> String {
        #[derive(Clone, Default)]
        struct Sink(std::sync::Arc<Mutex<Vec<u8>>>);
        impl io::Write for Sink {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().expect("whole").extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let sink = Sink::default();
        let writer = sink.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(lines.with_max_level(tracing::Level::WARN).finish(), work);
        let bytes = sink.0.lock().expect("whole").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn what_stands_in_the_way_is_named_once_with_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Autotune::open(Some(folder.path()), &key());
        store.remember("a", "1");
        let device = store.folder().expect("known").to_path_buf();
        fs::create_dir(device.join("shape.b")).expect("made");
        let lines = said(|| {
            store.remember("shape.b", "1");
            store.remember("shape.b", "2");
        });
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.contains(&device.join("shape.b").display().to_string()), "{lines}");
        assert!(lines.contains("Is a directory") && lines.contains("remove what is in its place"), "{lines}");

        fs::set_permissions(&device, fs::Permissions::from_mode(0o777)).expect("set");
        let lines = said(|| {
            for _ in 0..2 {
                Autotune::open(Some(folder.path()), &key()).remember("a", "2");
            }
        });
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert!(lines.contains("chmod o-w") && lines.contains(VARIABLE), "{lines}");
    }

    #[test]
    fn what_others_may_write_is_neither_believed_nor_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = folder.path().join("tune");
        let store = Autotune::open(Some(&directory), &key());
        store.remember("a", "1");
        store.remember("b", "1");
        let device = store.folder().expect("known").to_path_buf();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        };
        let open = || Autotune::open(Some(&directory), &key());
        for shared in [&directory, &device] {
            mode(shared, 0o777);
            let store = open();
            assert_eq!((store.folder(), store.recall("a")), (None, None));
            store.remember("c", "1");
            assert_eq!(value(store.recall("c")), Some("1".into()), "in this run");
            mode(shared, 0o700);
        }
        assert!(!device.join("c").exists());
        mode(&device.join("a"), 0o666);
        let store = open();
        assert_eq!((value(store.recall("a")), value(store.recall("b"))), (None, Some("1".into())));

        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&device, &elsewhere).expect("moved");
        symlink(&elsewhere, &device).expect("linked");
        assert_eq!(open().folder(), None, "a link leads anywhere");
        fs::remove_file(&device).expect("removed");
        fs::create_dir(&device).expect("made");
        mode(&device, 0o700);
        symlink(elsewhere.join("b"), device.join("b")).expect("linked");
        assert_eq!(open().recall("b"), None);
        open().remember("b", "2");
        assert_eq!(value(open().recall("b")), Some("2".into()));
        assert!(fs::read_to_string(elsewhere.join("b")).expect("kept").contains("value 1"), "not through it");
    }

    #[test]
    fn many_writers_at_once_lose_nothing_and_leave_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let stores: Vec<Autotune> = (0..4).map(|_| Autotune::open(Some(folder.path()), &key())).collect();
        std::thread::scope(|scope| {
            for (writer, store) in stores.iter().enumerate() {
                scope.spawn(move || {
                    for round in 0..50 {
                        store.remember_for("shared", format!("{writer}-{round}").as_str(), &build("1"));
                        store.remember_for(&format!("own-{writer}"), "1", &build("1"));
                        let seen = Autotune::open(Some(folder_of(store)), &key());
                        assert!(seen.recall_for("shared", &build("1")).is_some(), "never half written");
                    }
                });
            }
        });
        let device = stores[0].folder().expect("known");
        let mut names: Vec<String> = fs::read_dir(device)
            .expect("listed")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names, ["own-0", "own-1", "own-2", "own-3", "shared"]);
    }

    fn folder_of(store: &Autotune) -> &Path {
        store.folder().and_then(Path::parent).expect("in a directory")
    }
}
