//! Where records go: lines on standard error, lines of JSON in a file.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use cajeta_plugin_host::printable;
use serde_json::{Map, Value};
use thiserror::Error;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

use super::kinds::Record;

/// The field of an event that is a record; its value is the record's JSON.
pub const FIELD: &str = "record";
/// The variable that says which records are shown: `info`, `debug`, `cajeta::tile-choice=info`, …
pub const FILTER_VARIABLE: &str = "CAJETA_LOG";
/// The variable that names the file records are appended to.
pub const FILE_VARIABLE: &str = "CAJETA_RECORDS";

/// Characters of a path in a warning.
const PATH_MAX: usize = 300;
/// What names that file in its place.
const SETTING: &str = "`records` of cajeta.toml";

/// Where records go.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct StreamOptions {
    /// Which records are shown on standard error; warnings and errors if absent.
    pub filter: Option<String>,
    /// A file that every record is appended to.
    pub file: Option<PathBuf>,
    /// Whether the settings name the file, and not [`FILE_VARIABLE`].
    pub by_settings: bool,
}

/// Records cannot be shown or kept as asked.
#[derive(Debug, Error)]
pub enum StreamError {
    /// The filter is none.
    #[error(
        "{FILTER_VARIABLE}={filter:?} is not understood: {reason}; use error, warn, info, debug, trace or target=level"
    )]
    Filter {
        /// What was asked for.
        filter: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The file cannot be appended to.
    #[error("records cannot be appended to {}: {reason}; name another file in {place}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: io::Error,
        /// What names the file.
        place: &'static str,
    },
}

impl StreamOptions {
    /// What the environment asks for; `file` is what the settings name.
    pub fn of_process(file: Option<PathBuf>) -> StreamOptions {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let variable = set(FILE_VARIABLE).map(PathBuf::from);
        StreamOptions {
            filter: set(FILTER_VARIABLE).map(|value| value.to_string_lossy().into_owned()),
            by_settings: variable.is_none(),
            file: variable.or(file),
        }
    }

    fn open(&self) -> Result<Option<RecordFile>, StreamError> {
        let Some(path) = &self.file else { return Ok(None) };
        let place = if self.by_settings { SETTING } else { FILE_VARIABLE };
        let fail = |reason| StreamError::File { path: path.clone(), reason, place };
        RecordFile::open(path).map(Some).map_err(fail)
    }
}

/// Starts showing and keeping records. A subscriber that is there already belongs to whoever embeds
/// this, and stays.
///
/// # Errors
/// When the filter is not understood or the file cannot be opened.
pub fn start(options: &StreamOptions) -> Result<(), StreamError> {
    let filter = options.filter.as_deref().unwrap_or("warn");
    let filter = super::filter::parse(filter)
        .map_err(|reason| StreamError::Filter { filter: filter.to_owned(), reason })?;
    let file = options.open()?;
    let lines = tracing_subscriber::fmt::layer().event_format(Line).with_writer(io::stderr);
    let records = file.map(|file| file.with_filter(filter_fn(is_kept)));
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).with(records).try_init();
    Ok(())
}

/// Every record is kept, and of other events those that say something went wrong.
fn is_kept(metadata: &tracing::Metadata<'_>) -> bool {
    let target = metadata.target();
    let kind = target.strip_prefix("cajeta::");
    let is_record = kind.is_some_and(|kind| Record::KINDS.contains(&kind));
    is_record || (target.starts_with("cajeta") && *metadata.level() <= Level::WARN)
}

/// An event taken apart.
#[derive(Default)]
struct Parts {
    message: String,
    record: Option<String>,
    fields: Vec<(&'static str, String)>,
}

impl Parts {
    fn of(event: &Event<'_>) -> Parts {
        let mut parts = Parts::default();
        event.record(&mut parts);
        parts
    }
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            FIELD => self.record = Some(value.to_owned()),
            "message" => self.message = value.to_owned(),
            name => self.fields.push((name, value.to_owned())),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// `WARN tune-store: what happened`: one line, safe to show whatever a plugin put into it.
struct Line;

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let parts = Parts::of(event);
        let metadata = event.metadata();
        let target = metadata.target().strip_prefix("cajeta::").unwrap_or(metadata.target());
        let mut line = format!("{} {target}: {}", metadata.level(), parts.message);
        for (name, value) in &parts.fields {
            write!(line, " {name}={value}")?;
        }
        for c in line.chars() {
            if printable::steers(c) {
                write!(writer, "{}", c.escape_default())?
            } else {
                writer.write_char(c)?
            }
        }
        writeln!(writer)
    }
}

/// The file records are appended to, a line each, so that several processes may share it.
struct RecordFile {
    file: File,
    path: PathBuf,
    failed: AtomicBool,
}

impl RecordFile {
    fn open(path: &Path) -> io::Result<RecordFile> {
        // Opening a pipe that nobody reads would wait for a reader, without a word.
        let open = |flags| OpenOptions::new().create(true).append(true).custom_flags(flags).open(path);
        let mut file = open(libc::O_NONBLOCK).map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO) => io::Error::other("it is a pipe that nobody reads, or no file"),
            _ => error,
        })?;
        let kind = file.metadata()?.file_type();
        if kind.is_fifo() || kind.is_char_device() {
            // Somebody reads it: from here on it may take its time.
            file = open(0)?;
        } else if !kind.is_file() {
            return Err(io::Error::other("it is neither a file nor a pipe or terminal"));
        }
        Ok(RecordFile { file, path: path.to_owned(), failed: AtomicBool::new(false) })
    }
}

impl RecordFile {
    fn lost(&self, error: &io::Error) -> String {
        let path = printable::line(&self.path.display().to_string(), PATH_MAX);
        format!("WARN records: {path}: {error}; this record and all after it are lost")
    }
}

impl<S: Subscriber> Layer<S> for RecordFile {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        // One that failed may have written half a line, and what follows is not glued to it.
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        let line = json_line(event.metadata(), Parts::of(event), SystemTime::now());
        if let Err(error) = (&self.file).write_all(line.as_bytes())
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            // Said past the stream, which would come back here.
            let _ = writeln!(io::stderr().lock(), "{}", self.lost(&error));
        }
    }
}

/// The record with its time in front; events that are no records under the kind `event`.
fn json_line(metadata: &tracing::Metadata<'_>, parts: Parts, now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let mut object = Map::new();
    object.insert("unix_s".into(), seconds.into());
    match parts.record.as_deref().map(serde_json::from_str::<Map<String, Value>>) {
        Some(Ok(record)) => object.extend(record),
        _ => {
            object.insert(FIELD.into(), "event".into());
            object.insert("level".into(), metadata.level().as_str().into());
            object.insert("target".into(), metadata.target().into());
            object.insert("message".into(), parts.message.into());
            object.extend(parts.fields.into_iter().map(|(name, value)| (name.to_owned(), value.into())));
        }
    }
    format!("{}\n", Value::Object(object))
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::EnvFilter;

    use super::*;
    use crate::record::{DecodeMode, SchedPhase, TuneStore};
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shown(Arc<Mutex<Vec<u8>>>);

    impl Write for Shown {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("lock").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What a filter shows, and what a file keeps, of some events.
    fn streams(filter: &str, events: impl FnOnce()) -> (String, Vec<Value>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("records.jsonl");
        let shown = Shown::default();
        let writer = shown.clone();
        let lines = tracing_subscriber::fmt::layer().event_format(Line).with_writer(move || writer.clone());
        let file = RecordFile::open(&path).expect("opens").with_filter(filter_fn(is_kept));
        let subscriber =
            tracing_subscriber::registry().with(lines.with_filter(EnvFilter::new(filter))).with(file);
        tracing::subscriber::with_default(subscriber, events);
        let kept = std::fs::read_to_string(&path).expect("kept");
        let kept = kept.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let shown = String::from_utf8(shown.0.lock().expect("lock").clone()).expect("text");
        (shown, kept)
    }

    #[test]
    fn a_filter_shows_its_kind_and_the_file_keeps_all() {
        let (shown, kept) = streams("cajeta::decode-mode=info", || {
            Record::from(DecodeMode { mode: "pipelined".into(), why: "one sequence".into() }).emit();
            Record::from(SchedPhase { rows: 4, ..Default::default() }).emit();
        });
        assert_eq!(shown, "INFO decode-mode: pipelined: one sequence\n");
        assert_eq!(kept.len(), 2);
        assert_eq!((&kept[0]["record"], &kept[0]["mode"]), (&"decode-mode".into(), &"pipelined".into()));
        assert_eq!((&kept[1]["record"], &kept[1]["rows"]), (&"sched-phase".into(), &4.into()));
        assert!(kept[0]["unix_s"].as_f64().is_some_and(|seconds| seconds > 1.7e9));
    }

    #[test]
    fn warnings_are_shown_without_asking_and_control_characters_never() {
        let (shown, kept) = streams("warn", || {
            Record::from(TuneStore { folder: "a\u{1b}[2J\nb".into(), event: "dropped".into() }).emit();
            Record::from(DecodeMode::default()).emit();
            tracing::warn!(target: "cajeta_plugin_host::device", code = "lost", "freeing failed");
            tracing::warn!(target: "another_library", "not ours to keep");
        });
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "WARN tune-store: a\\u{1b}[2J\\nb: dropped");
        assert_eq!(lines[1], "WARN cajeta_plugin_host::device: freeing failed code=lost");
        assert_eq!(kept.len(), 3, "{kept:?}");
        assert_eq!(kept[2]["record"], "event");
        assert_eq!(kept[2]["code"], "lost");
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        let bad = StreamOptions { filter: Some("a=b=c".into()), ..StreamOptions::default() };
        assert!(start(&bad).expect_err("no filter").to_string().contains(FILTER_VARIABLE));
        let mut gone =
            StreamOptions { file: Some("/nowhere/at/all.jsonl".into()), ..StreamOptions::default() };
        let why = start(&gone).expect_err("no file").to_string();
        assert!(why.contains("/nowhere/at/all.jsonl") && why.contains(FILE_VARIABLE), "{why}");
        gone.by_settings = true;
        let why = start(&gone).expect_err("no file").to_string();
        assert!(why.contains("cajeta.toml") && !why.contains(FILE_VARIABLE), "{why}");
    }

    #[test]
    fn a_pipe_needs_a_reader_and_nobody_waits_for_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
        let why = RecordFile::open(&pipe).err().expect("nobody reads it").to_string();
        assert!(why.contains("nobody reads"), "{why}");
        let reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).expect("opens");
        assert!(RecordFile::open(&pipe).is_ok());
        drop(reader);
        assert!(RecordFile::open(folder.path()).is_err() && RecordFile::open(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn a_file_that_is_full_says_once_that_records_are_lost() {
        let full = RecordFile::open(Path::new("/dev/full")).expect("opens");
        let said = full.lost(&io::Error::other("no space"));
        assert_eq!(said, "WARN records: /dev/full: no space; this record and all after it are lost");
        let failed = Arc::new(full);
        let subscriber = tracing_subscriber::registry().with(Watched(failed.clone()));
        tracing::subscriber::with_default(subscriber, || tracing::warn!("lost"));
        assert!(failed.failed.load(Ordering::Relaxed));
    }

    /// A file that can still be looked at while it listens.
    struct Watched(Arc<RecordFile>);

    impl<S: Subscriber> Layer<S> for Watched {
        fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
            self.0.on_event(event, context);
        }
    }
}
