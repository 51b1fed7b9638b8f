//! Defect records: kernels known to go wrong on some device or driver.
//!
//! ```toml
//! schema = 1
//! [[defect]]
//! row = "q6kWmmaMw*"       # a row's name; `*` at the end stands for any rest
//! backend = "example"      # these are optional: whose row,
//! target = "arch900"       # for which code target,
//! device = "Model X"       # on which device, by a part of its name,
//! driver_from = "580.65"   # from which driver version
//! driver_below = "590"     # up to, and without, which
//! reason = "the context is lost"
//! ```
//!
//! They are read from `cajeta-defects-NAME.toml` beside a plugin and from every `.toml` in the `defects`
//! folder beside an operator's `cajeta.toml`. The host has none of its own. A file that does not read is
//! warned of, and none of its records holds.

use std::fs::File as Opened;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use cajeta_abi::DeviceFacts;
use cajeta_plugin_host::probe::Avoided;
use cajeta_plugin_host::{printable, trust};
use serde::Deserialize;
use thiserror::Error;

use super::defect::Defect;
use crate::settings;

/// A file of records has no business being larger.
const MAX_BYTES: u64 = 1 << 20;
/// Most files of the operator's folder that are read.
const MAX_FILES: usize = 256;
/// Characters of what is wrong with a file.
const WHY_MAX: usize = 300;

/// Records that do not read.
#[derive(Debug, Error)]
#[error("{path}: {reason}; none of its defect records holds until it is corrected", path = path.display())]
pub struct DefectError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// All records that may hold for one backend.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Defects(Vec<Defect>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    #[serde(default)]
    defect: Vec<Defect>,
}

impl Defects {
    /// The records beside a plugin and in the operator's folders, for a backend. A file that does not
    /// read is warned of and left out.
    pub fn installed(backend: &str, plugin_folder: Option<&Path>) -> Defects {
        Defects::collect(backend, plugin_folder, &|sentence| tracing::warn!("{sentence}"))
    }

    /// The rows of the same records, as a probe is told them; in silence.
    pub(super) fn avoided(backend: &str, plugin_folder: Option<&Path>) -> Vec<Avoided> {
        let all = Defects::collect(backend, plugin_folder, &|_| ());
        all.0.iter().map(Defect::avoided).collect()
    }

    fn collect(backend: &str, plugin_folder: Option<&Path>, warn: &dyn Fn(&str)) -> Defects {
        let mut all = Defects::default();
        let mut add = |file: &Path, checked: Result<(), String>| {
            let found = match checked {
                Ok(()) => Defects::read(file),
                Err(reason) => Err(DefectError { path: file.to_owned(), reason }),
            };
            match found {
                Ok(defects) => all.0.extend(defects.0),
                Err(error) => warn(&error.to_string()),
            }
        };
        if let Some(folder) = plugin_folder {
            let beside = folder.join(format!("cajeta-defects-{backend}.toml"));
            if is_there(&beside) {
                // A file that a plugin ships is held to the rules for the plugin itself: nobody else may have
                // written it.
                add(&beside, trust::check_in_place(&beside).map(drop));
            }
        }
        for folder in settings::folders() {
            files(&folder.join("defects"), warn).iter().for_each(|file| add(file, Ok(())));
        }
        all.0.retain(|defect| defect.backend.as_deref().is_none_or(|named| named == backend));
        all
    }

    /// The records of a file.
    ///
    /// # Errors
    /// When it cannot be read, is no TOML, is of another schema, or has a key this version does not know.
    pub fn read(path: &Path) -> Result<Defects, DefectError> {
        let read = || {
            // Opening a pipe would wait for its other end.
            if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
                return Err("it is no file".to_owned());
            }
            let mut bytes = Vec::new();
            let opened = Opened::open(path).map(|file| file.take(MAX_BYTES + 1));
            opened.and_then(|mut file| file.read_to_end(&mut bytes)).map_err(|error| error.to_string())?;
            if bytes.len() as u64 > MAX_BYTES {
                return Err(format!("it has more than {MAX_BYTES} bytes"));
            }
            Defects::parse(std::str::from_utf8(&bytes).map_err(|error| error.to_string())?)
        };
        let mut defects = read().map_err(|reason| DefectError {
            path: path.to_owned(),
            reason: printable::line(&reason, WHY_MAX),
        })?;
        defects.0.iter_mut().for_each(|defect| defect.file = path.to_owned());
        Ok(defects)
    }

    /// The records of a text, or what is wrong with it in one line.
    pub fn parse(text: &str) -> Result<Defects, String> {
        let mut file: File =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().replace('\n', " "))?;
        if file.schema != 1 {
            return Err(format!("schema {} is not known; this host reads schema 1", file.schema));
        }
        file.defect.iter_mut().try_for_each(Defect::check)?;
        Ok(Defects(file.defect))
    }

    /// Records that name none of the backend's rows: a typing error, of another version, or, where they name no
    /// backend, of another one.
    pub fn strangers<'a>(&'a self, rows: &'a [&str]) -> impl Iterator<Item = &'a Defect> {
        self.0.iter().filter(move |defect| !rows.iter().any(|row| defect.names(row)))
    }

    /// The record that holds for a row on a device.
    pub fn of(&self, row: &str, facts: &DeviceFacts) -> Option<&Defect> {
        self.0.iter().find(|defect| defect.holds(row, facts))
    }
}

/// Whether there is something under a name. What cannot be asked about counts: reading it says why.
fn is_there(file: &Path) -> bool {
    !matches!(std::fs::symlink_metadata(file), Err(error) if error.kind() == ErrorKind::NotFound)
}

/// The record files of a folder, by name; none where it is not there.
fn files(folder: &Path, warn: &dyn Fn(&str)) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            warn(&format!("{}: {error}; none of its defect records holds", folder.display()));
            return Vec::new();
        }
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    files.sort();
    if let Some(first) = files.get(MAX_FILES) {
        warn(&format!("{}: it and those after it are not read: {MAX_FILES} are the most", first.display()));
    }
    files.truncate(MAX_FILES);
    files
}

#[cfg(test)]
pub(super) mod tests {
    use cajeta_abi::Text;

    use super::*;

    /// A device of this name, target and driver.
    pub(crate) fn facts(name: &str, target: &str, driver: &str) -> DeviceFacts {
        let [name, target, driver] = [name, target, driver].map(Text::new);
        DeviceFacts { name, target, driver, ..DeviceFacts::NONE }
    }

    #[test]
    fn what_does_not_read_is_said() {
        for (text, words) in [
            ("", "schema"),
            ("schema = 2", "schema 2"),
            ("schema = 1\n[[defect]]\nrow = 'a'", "reason"),
            ("schema = 1\n[[defect]]\nrow = '*'\nreason = 'r'", "needs a row"),
            ("schema = 1\n[[defect]]\nrow = 'a'\nreason = 'r'\nvendor = 'v'", "vendor"),
            ("schema = 1\n[[defect]]\nrow = 'a'\nreason = 'r'\ndriver_from = 'new'", "`new`"),
            ("schema = 1\n[[defect]]\nrow = 'a'\nreason = 'r'\nfile = 'f'", "file"),
            (
                "schema = 1\n[[defect]]\nrow = 'a'\nreason = 'r'\ndriver_from = '2.0'\ndriver_below = '2'",
                "no driver is from 2.0 and below 2",
            ),
            ("schema = 1\n[[defect]]\nrow = \"a\\u001b[2J\"\nreason = 'r'", "steers a terminal"),
            ("schema = 1\n[[defect]]\nrow = \"a\\u202e\"\nreason = 'r'", "steers a terminal"),
            (
                "schema = 1\n[[defect]]\nrow = 'a'\nbackend = '*'\nreason = 'r'",
                "no backend; one for any names none",
            ),
            ("schema = 1\n[[defect]]\nrow = 'a'\nreason = '\t'", "needs a row"),
            ("schema = 1\n[[defect]]\nrow = 'a*b'\nreason = 'r'", "at its end"),
            ("\u{0}", ""),
        ] {
            let error = Defects::parse(text).expect_err(text);
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_examples_in_the_documents_read() {
        let texts = [
            include_str!("../../../../docs/writing-a-backend.md"),
            include_str!("../../../../docs/plugins.md"),
        ];
        for text in texts {
            let blocks = text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
            let examples: Vec<&str> = blocks.filter(|block| block.contains("[[defect]]")).collect();
            assert_eq!(examples.len(), 1);
            let defects = Defects::parse(examples[0]).expect("reads");
            let drivers = ["580.65.06", "590"].map(|driver| facts("Model X", "arch900", driver));
            assert!(defects.of("q6kWmmaMw128", &drivers[0]).is_some());
            assert!(defects.of("q6kWmmaMw128", &drivers[1]).is_none());
        }
    }

    #[test]
    fn records_beside_a_plugin_are_of_its_rows_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("cajeta-defects-zebra.toml");
        let record = |backend: &str| format!("[[defect]]\nrow = 'a'\nbackend = '{backend}'\nreason = 'r'\n");
        std::fs::write(&file, format!("schema = 1\n{}{}", record("zebra"), record("yak"))).expect("written");
        let found = Defects::installed("zebra", Some(folder.path()));
        let named = found.0.iter().filter(|defect| defect.row == "a" && defect.backend.is_some());
        assert_eq!(named.count(), 1);
        std::fs::write(&file, "schema = 'one'").expect("written");
        let error = Defects::read(&file).expect_err("no number").to_string();
        assert!(error.contains("cajeta-defects-zebra.toml") && error.contains("none of its"), "{error}");
        assert!(Defects::installed("yak", Some(folder.path())).of("a", &facts("", "", "")).is_none());
    }

    #[test]
    fn files_that_are_no_files_or_too_large_are_left_out() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cajeta-defects-zebra.toml");
        let refused = |words: &str| {
            let error = Defects::read(&path).expect_err(words).to_string();
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
            assert_eq!(Defects::installed("zebra", Some(folder.path())).of("a", &facts("", "", "")), None);
        };
        let good = "schema = 1\n[[defect]]\nrow = 'a'\nreason = 'r'\n";
        std::fs::write(&path, format!("{good}{}", " ".repeat(MAX_BYTES as usize))).expect("written");
        refused("more than");
        std::fs::write(&path, [good.as_bytes(), b"# \xff"].concat()).expect("written");
        refused("utf-8");
        std::fs::write(&path, "[".repeat(200_000)).expect("written");
        refused("");
        std::fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", &path).expect("linked");
        refused("no file");
        std::fs::remove_file(&path).expect("removed");
        let made = std::process::Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(made.success());
        refused("no file");
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir(&path).expect("made");
        refused("no file");
    }

    #[test]
    fn a_shipped_file_that_others_may_write_does_not_hold() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("cajeta-defects-zebra.toml");
        std::fs::write(&path, "schema = 1\n[[defect]]\nrow = 'a'\nreason = 'r'\n").expect("written");
        let found = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
            Defects::installed("zebra", Some(folder.path())).of("a", &facts("", "", "")).is_some()
        };
        assert!(found(0o644) && !found(0o666));
    }

    #[test]
    fn a_record_that_names_no_row_of_its_backend_is_told() {
        let text = "schema = 1\n[[defect]]\nrow = 'q4*'\nbackend = 'b'\nreason = 'r'\n\
                    [[defect]]\nrow = 'q5'\nbackend = 'b'\nreason = 'r'\n\
                    [[defect]]\nrow = 'q6'\nreason = 'of any backend'\n";
        let defects = Defects::parse(text).expect("reads");
        let strange: Vec<&str> =
            defects.strangers(&["q4Tile", "q5Tile"]).map(|defect| defect.row.as_str()).collect();
        assert_eq!(strange, ["q5", "q6"]);
    }
}
