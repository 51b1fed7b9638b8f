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
//! folder beside an operator's `cajeta.toml`. The host has none of its own.

use std::path::{Path, PathBuf};

use cajeta_abi::DeviceFacts;
use serde::Deserialize;
use thiserror::Error;

use crate::settings;

/// A file of records has no business being larger.
const MAX_BYTES: u64 = 1 << 20;
/// Most files of the operator's folder that are read.
const MAX_FILES: usize = 256;

/// Records that do not read.
#[derive(Debug, Error)]
#[error("{path}: {reason}; none of its defect records holds until it is corrected", path = path.display())]
pub struct DefectError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// One record.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defect {
    /// The row's name, or its beginning and `*`.
    pub row: String,
    /// The backend; any if absent.
    pub backend: Option<String>,
    /// The code target; any if absent.
    pub target: Option<String>,
    /// A part of the device's name; any if absent.
    pub device: Option<String>,
    /// First driver version with the defect.
    pub driver_from: Option<String>,
    /// First driver version without it.
    pub driver_below: Option<String>,
    /// What goes wrong.
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
        let beside = plugin_folder.map(|folder| folder.join(format!("cajeta-defects-{backend}.toml")));
        let beside = beside.into_iter().filter(|file| file.exists());
        let operators = settings::folders().into_iter().flat_map(|folder| files(&folder.join("defects")));
        let mut all = Defects::default();
        for file in beside.chain(operators) {
            match Defects::read(&file) {
                Ok(defects) => all.0.extend(defects.0),
                Err(error) => tracing::warn!("{error}"),
            }
        }
        all.0.retain(|defect| defect.backend.as_deref().is_none_or(|named| named == backend));
        all
    }

    /// The records of a file.
    ///
    /// # Errors
    /// When it cannot be read, is no TOML, is of another schema, or has a key this version does not know.
    pub fn read(path: &Path) -> Result<Defects, DefectError> {
        let fail = |reason: String| DefectError { path: path.to_owned(), reason };
        let size = std::fs::metadata(path).map_err(|error| fail(error.to_string()))?.len();
        if size > MAX_BYTES {
            return Err(fail(format!("{size} bytes are more than {MAX_BYTES}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        Defects::parse(&text).map_err(fail)
    }

    /// The records of a text, or what is wrong with it in one line.
    pub fn parse(text: &str) -> Result<Defects, String> {
        let file: File =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().replace('\n', " "))?;
        if file.schema != 1 {
            return Err(format!("schema {} is not known; this host reads schema 1", file.schema));
        }
        for defect in &file.defect {
            let versions = [&defect.driver_from, &defect.driver_below];
            if let Some(bad) = versions.into_iter().flatten().find(|text| version(text).is_empty()) {
                return Err(format!("`{bad}` is no driver version: expected numbers with dots"));
            }
            if defect.row.trim_end_matches('*').is_empty() || defect.reason.trim().is_empty() {
                return Err("a record needs a row's name and a reason".into());
            }
        }
        Ok(Defects(file.defect))
    }

    /// The record that holds for a row on a device.
    pub fn of(&self, row: &str, facts: &DeviceFacts) -> Option<&Defect> {
        self.0.iter().find(|defect| defect.holds(row, facts))
    }
}

impl Defect {
    fn holds(&self, row: &str, facts: &DeviceFacts) -> bool {
        let named = match self.row.strip_suffix('*') {
            Some(beginning) => row.starts_with(beginning),
            None => row == self.row,
        };
        let target = self.target.as_deref().is_none_or(|target| target == facts.target.as_str());
        let device = self.device.as_deref().is_none_or(|part| facts.name.as_str().contains(part));
        named && target && device && self.in_range(facts.driver.as_str())
    }

    /// A driver that does not say its version cannot be told apart from one with the defect.
    fn in_range(&self, driver: &str) -> bool {
        let driver = version(driver);
        let from = self.driver_from.as_deref().map(version);
        let below = self.driver_below.as_deref().map(version);
        driver.is_empty()
            || (from.is_none_or(|from| driver >= from) && below.is_none_or(|below| driver < below))
    }
}

/// The numbers of the first word that begins with one: `580.65.06` is 580, 65, 6.
fn version(text: &str) -> Vec<u64> {
    let mut words = text.split(|c: char| c.is_whitespace() || c == ',');
    let word = words.find(|word| word.starts_with(|c: char| c.is_ascii_digit())).unwrap_or("");
    word.split('.').map_while(|number| number.parse().ok()).collect()
}

/// The record files of a folder, by name; none where it is not there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    files.sort();
    files.truncate(MAX_FILES);
    files
}

#[cfg(test)]
mod tests {
    use cajeta_abi::Text;

    use super::*;

    fn facts(name: &str, target: &str, driver: &str) -> DeviceFacts {
        let [name, target, driver] = [name, target, driver].map(Text::new);
        DeviceFacts { name, target, driver, ..DeviceFacts::NONE }
    }

    #[test]
    fn a_record_holds_for_its_rows_device_and_drivers() {
        let defects = Defects::parse(
            "schema = 1\n[[defect]]\nrow = 'q6kTile*'\ntarget = 't1'\ndevice = 'Model X'\n\
             driver_from = '580.65'\ndriver_below = '590'\nreason = 'lost'\n",
        )
        .expect("reads");
        let holds = |row, name, target, driver| defects.of(row, &facts(name, target, driver)).is_some();
        assert!(holds("q6kTile128", "The Model X 9", "t1", "580.65.06"));
        assert!(holds("q6kTile", "Model X", "t1", "589.99"));
        assert!(holds("q6kTile", "Model X", "t1", ""), "a driver that says nothing may have it");
        for (row, name, target, driver) in [
            ("q4kTile", "Model X", "t1", "580.65"),
            ("q6kTile", "Model Y", "t1", "580.65"),
            ("q6kTile", "Model X", "t2", "580.65"),
            ("q6kTile", "Model X", "t1", "580.9"),
            ("q6kTile", "Model X", "t1", "driver 590.1"),
        ] {
            assert!(!holds(row, name, target, driver), "{row} {name} {target} {driver}");
        }
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
            ("\u{0}", ""),
        ] {
            let error = Defects::parse(text).expect_err(text);
            assert!(error.contains(words) && !error.contains('\n'), "{error}");
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
}
