//! Where calibrations come from: shipped with the plugin, else measured here.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use cajeta_plugin_host::{Backend, trust};

use super::file::{shipped, single};
use super::record::{CalibrationKey, CalibrationRecord};
use crate::tune::store::{file_name, platform_directory, write_whole};

/// Where a record came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// This file, shipped with the plugin.
    Shipped(PathBuf),
    /// This file, measured on this machine.
    Platform(PathBuf),
}

/// The files calibrations are kept in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CalibrationStore {
    /// A list of records beside the plugin's library.
    shipped: Option<PathBuf>,
    /// The folder of records measured here, a file each.
    platform: Option<PathBuf>,
}

impl CalibrationStore {
    /// The store of a backend: `cajeta-backend-ID.calibration.json` beside its library, then the
    /// platform's folder.
    pub fn of(backend: &Backend) -> CalibrationStore {
        let shipped = backend.path().parent();
        CalibrationStore {
            shipped: shipped
                .map(|folder| folder.join(format!("cajeta-backend-{}.calibration.json", backend.id()))),
            platform: platform_directory().map(|folder| folder.join("calibration")),
        }
    }

    /// A store over given places.
    pub fn over(shipped: Option<PathBuf>, platform: Option<PathBuf>) -> CalibrationStore {
        CalibrationStore { shipped, platform }
    }

    /// The record for a device, and where it came from. A file that does not read, is of another form or
    /// says what cannot be is warned of, and the next place is asked.
    pub fn serve(&self, key: &CalibrationKey) -> Option<(CalibrationRecord, Origin)> {
        let shipped = self.shipped.as_ref().and_then(|path| {
            let record = shipped(path, key)?;
            Some((record, Origin::Shipped(path.clone())))
        });
        shipped.or_else(|| {
            let path = self.path(key)?;
            let record = single(&path, key)?;
            Some((record, Origin::Platform(path)))
        })
    }

    /// Keeps a record in the platform's folder; the file.
    ///
    /// # Errors
    /// When there is no such folder, it cannot be written, or others may write there: nothing that is kept there
    /// would be believed.
    pub fn keep(&self, record: &CalibrationRecord) -> io::Result<PathBuf> {
        let path = self.path(&record.key).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "this user has no home folder to keep it in")
        })?;
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        write_whole(&path, &serde_json::to_vec_pretty(record)?)?;
        trust::check_in_place(&path)
            .map_err(|why| io::Error::other(format!("{}: {why}; it will not be believed", path.display())))?;
        Ok(path)
    }

    fn path(&self, key: &CalibrationKey) -> Option<PathBuf> {
        Some(self.platform.as_ref()?.join(file_name(&key.to_string())).with_added_extension("json"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fact::CalibrationFact;
    use super::super::record::Measured;
    use super::*;

    fn key(driver: &str) -> CalibrationKey {
        CalibrationKey {
            backend: "first".into(),
            device: "../a device".into(),
            driver: driver.into(),
            compiler: "cc 1".into(),
            power_mode: String::new(),
        }
    }

    fn record(driver: &str, value: f64) -> CalibrationRecord {
        let mut record = CalibrationRecord::new(key(driver), 7);
        record.put(CalibrationFact::Launch, Ok(Measured { value, by: "add".into() }));
        record.put(CalibrationFact::PeakInt8, Err("no row".into()));
        record.put(CalibrationFact::PeakF16, Ok(Measured { value: f64::NAN, by: "x".into() }));
        record
    }

    #[test]
    fn shipped_comes_first_and_a_key_serves_itself_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let shipped = folder.path().join("cajeta-backend-first.calibration.json");
        let store = CalibrationStore::over(Some(shipped.clone()), Some(folder.path().join("calibration")));
        assert_eq!(store.serve(&key("1")), None);
        let path = store.keep(&record("1", 5.0)).expect("kept");
        assert!(path.starts_with(folder.path().join("calibration")), "{}", path.display());
        assert_eq!(store.serve(&key("1")), Some((record("1", 5.0), Origin::Platform(path))));
        assert_eq!(store.serve(&key("2")), None, "another driver");

        let list = vec![record("2", 8.0), record("1", 9.0)];
        fs::write(&shipped, serde_json::to_vec(&list).expect("json")).expect("written");
        let (served, origin) = store.serve(&key("1")).expect("shipped");
        assert_eq!(
            (served.get(CalibrationFact::Launch), origin),
            (Some(9.0), Origin::Shipped(shipped.clone()))
        );

        fs::write(&shipped, "garbage").expect("written");
        assert_eq!(
            store.serve(&key("1")).map(|(record, _)| record.get(CalibrationFact::Launch)),
            Some(Some(5.0))
        );
    }

    #[test]
    fn what_was_not_measured_is_absent_with_its_reason() {
        let record = record("1", 5.0);
        assert_eq!(record.get(CalibrationFact::PeakInt8), None);
        assert_eq!(record.absent[&CalibrationFact::PeakInt8], "no row");
        assert!(record.absent[&CalibrationFact::PeakF16].contains("NaN"), "{:?}", record.absent);
        let json = serde_json::to_string(&record).expect("json");
        assert!(json.contains("\"launch_ns\":{\"value\":5.0"), "{json}");
        assert_eq!(serde_json::from_str::<CalibrationRecord>(&json).expect("json"), record);
    }
}
