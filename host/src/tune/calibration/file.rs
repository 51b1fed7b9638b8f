//! Reads files of records. Anybody may have written them: what does not hold is left out, with a warning.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use cajeta_plugin_host::{printable, trust};
use serde::Deserialize;
use serde_json::Value;

use super::record::{CalibrationKey, CalibrationRecord, SCHEMA};

/// Most bytes of a file that are read.
const BYTES_MAX: u64 = 4 << 20;
/// Characters of what is wrong with a file.
const WHY_MAX: usize = 500;

/// The record of a device in the list that a plugin ships, if there is one.
pub(super) fn shipped(path: &Path, key: &CalibrationKey) -> Option<CalibrationRecord> {
    let find = || {
        let Some(found) = content(path)? else { return Ok(None) };
        let records = found.as_array().ok_or("it is no list of records")?;
        for (at, why) in (1..).zip(records).filter_map(|(at, record)| Some((at, nobodys(record)?))) {
            tracing::warn!("{}: record {at} {why}; it holds for no device", path.display());
        }
        // Of the others nothing is asked: one that does not read costs its own device alone.
        let of_device = |record: &&Value| {
            let found = record.get("key").map(CalibrationKey::deserialize);
            found.is_some_and(|found| found.is_ok_and(|found| found == *key))
        };
        records.iter().find(of_device).map(record).transpose()
    };
    warned(path, find())
}

/// The record of a device in a file of its own.
pub(super) fn single(path: &Path, key: &CalibrationKey) -> Option<CalibrationRecord> {
    let find = || {
        let Some(found) = content(path)? else { return Ok(None) };
        let record = record(&found)?;
        if record.key != *key {
            return Err(format!("it is of another device: {}", record.key));
        }
        Ok(Some(record))
    };
    warned(path, find())
}

/// Why a record of a list is of no device at all; one of another form may say elsewhere what it is of.
fn nobodys(record: &Value) -> Option<String> {
    let schema = record.get("schema");
    if schema.and_then(Value::as_u64).is_some_and(|schema| schema != u64::from(SCHEMA)) {
        return None;
    }
    let key = record.get("key").map(CalibrationKey::deserialize);
    match key {
        None => Some("has no `key`".into()),
        Some(Err(error)) => {
            Some(format!("has a `key` that does not read: {}", printable::line(&error.to_string(), WHY_MAX)))
        }
        Some(Ok(_)) => None,
    }
}

fn warned(path: &Path, found: Result<Option<CalibrationRecord>, String>) -> Option<CalibrationRecord> {
    found.unwrap_or_else(|why| {
        let (path, why) = (path.display(), printable::line(&why, WHY_MAX));
        tracing::warn!("{path}: {why}; what it says is not believed until it is corrected or removed");
        None
    })
}

fn record(found: &Value) -> Result<CalibrationRecord, String> {
    // Before all else: a record of another form may have any fields.
    match found.get("schema").and_then(Value::as_u64) {
        Some(schema) if schema == u64::from(SCHEMA) => {}
        Some(other) => return Err(format!("schema {other} is not known; this host reads schema {SCHEMA}")),
        None => return Err(format!("no `schema`, which is a number; this host reads schema {SCHEMA}")),
    }
    CalibrationRecord::deserialize(found).map_err(|error| error.to_string())?.checked()
}

/// What a file holds; nothing when it is not there. It is held to the rules that hold for a plugin: nobody
/// else may have written it.
fn content(path: &Path) -> Result<Option<Value>, String> {
    if matches!(fs::symlink_metadata(path), Err(error) if error.kind() == ErrorKind::NotFound) {
        return Ok(None);
    }
    // Before a byte of it is believed.
    trust::check_in_place(path)?;
    match bytes(path) {
        Ok(bytes) if bytes.len() as u64 > BYTES_MAX => Err(format!("it has more than {BYTES_MAX} bytes")),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| error.to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// The bytes of a file, one more than the most at most.
fn bytes(path: &Path) -> std::io::Result<Vec<u8>> {
    // Opening a pipe would wait for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "it is no file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;

    use super::*;

    fn key() -> CalibrationKey {
        let text = |words: &str| words.to_owned();
        let (driver, compiler) = (text("1"), text("cc"));
        let (backend, device) = (text("first"), text("a device"));
        CalibrationKey { backend, device, driver, compiler, power_mode: String::new() }
    }

    /// A record of the device, with some text of it replaced.
    fn text(from: &str, to: &str) -> String {
        let text = r#"{"schema": 1, "unix_s": 7, "foreign_load_percent": null,
            "key": {"backend": "first", "device": "a device", "driver": "1", "compiler": "cc", "power_mode": ""},
            "facts": {"launch_ns": {"value": 5.0, "by": "add"}}, "absent": {"peak_int8_ops": "no row"}}"#;
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    }

    fn write(name: &str, content: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("set");
        let path = folder.path().join(name);
        fs::write(&path, content).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        (folder, path)
    }

    #[test]
    fn what_does_not_hold_is_not_believed() {
        let (_folder, path) = write("a.json", text("launch_ns", "launch_ns").as_bytes());
        assert!(single(&path, &key()).is_some());
        for (from, to, words) in [
            (r#""schema": 1, "#, "", "no `schema`"),
            (r#""schema": 1"#, r#""schema": 2, "cores": 9"#, "schema 2 is not known"),
            (r#""schema": 1"#, r#""schema": "1""#, "no `schema`"),
            ("5.0", "-5.0", "launch_ns is -5e0"),
            ("5.0", "1e300", "launch_ns is 1e300"),
            ("5.0", "1e999", "out of range"),
            ("5.0", "NaN", "expected"),
            ("launch_ns", "event_clock_scale", "event_clock_scale is 5e0"),
            ("launch_ns", "launch_miles", "launch_miles"),
            ("peak_int8_ops", "launch_ns", "both measured and absent"),
            (r#""unix_s": 7"#, r#""unix_s": -7"#, "-7"),
            (r#""unix_s": 7"#, r#""unix_s": 7, "\u001b[2J": 1"#, "unknown field ` [2J`"),
        ] {
            let (_folder, path) = write("a.json", text(from, to).as_bytes());
            let found = content(&path).and_then(|found| record(&found.expect("there")));
            let why = printable::line(&found.expect_err(to), WHY_MAX);
            assert!(why.contains(words), "{to}: {why}");
            assert_eq!(single(&path, &key()), None, "{to}");
        }
        let other = CalibrationKey { driver: "2".into(), ..key() };
        assert_eq!(single(&path, &other), None, "another driver's file under this name");
    }

    #[test]
    fn the_example_in_the_authors_walk_reads() {
        let walk = include_str!("../../../../docs/writing-a-backend.md");
        let example = walk.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("one");
        let records: Vec<Value> = serde_json::from_str(example).expect("a list");
        assert!(records.iter().all(|found| record(found).is_ok()) && !records.is_empty());
    }

    #[test]
    fn words_of_a_file_cannot_steer_a_terminal() {
        let (_folder, path) = write("a.json", text("\"add\"", r#""add\u001b[2J\n""#).as_bytes());
        let record = single(&path, &key()).expect("it reads");
        assert_eq!(record.facts.values().next().map(|measured| measured.by.as_str()), Some("add [2J"));
    }

    #[test]
    fn a_bad_record_of_a_list_costs_no_other_device_anything() {
        let (good, bad) = (text("\"1\"", "\"1\""), text("5.0", "\"five\"").replace("a device", "b device"));
        let list = format!("[7, {{}}, {bad}, {good}]");
        let (_folder, path) = write("a.json", list.as_bytes());
        assert!(shipped(&path, &key()).is_some());
        assert_eq!(shipped(&path, &CalibrationKey { device: "b device".into(), ..key() }), None);
        assert_eq!(single(&path, &key()), None, "a list is no record");
        let (_folder, path) = write("a.json", good.as_bytes());
        assert_eq!(shipped(&path, &key()), None, "a record is no list");
    }

    #[test]
    fn a_list_with_a_record_of_no_device_is_told() {
        let told = |text: &str| nobodys(&serde_json::from_str(text).expect(text)).unwrap_or_default();
        assert_eq!(told(r#"{"schema": 1}"#), "has no `key`");
        assert_eq!((told("7"), told("{}")), ("has no `key`".into(), "has no `key`".into()));
        assert!(told(r#"{"schema": 1, "key": {"backend": "b"}}"#).contains("does not read: missing field"));
        assert_eq!(told(r#"{"schema": 2}"#), "", "of another form, which may say it elsewhere");
        assert_eq!(told(&text("5.0", "5.0")), "");
    }

    #[test]
    fn a_kept_file_that_others_may_write_is_not_believed() {
        let record = text("5.0", "5.0");
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
        };
        let why = |path: &Path| content(path).expect_err("not believed");
        let (folder, path) = write("a.json", record.as_bytes());
        assert!(single(&path, &key()).is_some());
        mode(&path, 0o666);
        assert!(why(&path).starts_with("it is writable by everybody"), "{}", why(&path));
        assert_eq!(single(&path, &key()), None);
        mode(&path, 0o644);
        mode(folder.path(), 0o777);
        assert!(why(&path).contains("is writable by everybody"), "{}", why(&path));
        assert_eq!(single(&path, &key()), None, "anybody may have put it there");
        mode(folder.path(), 0o755);
        assert!(single(&path, &key()).is_some());
        let (_other, outside) = write("b.json", record.as_bytes());
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink(&outside, &path).expect("linked");
        assert_eq!(single(&path, &key()), None, "a link that leads out of the folder");
    }

    #[test]
    fn a_shipped_file_that_others_may_write_is_not_believed() {
        let (_folder, path) = write("a.json", format!("[{}]", text("5.0", "5.0")).as_bytes());
        assert!(shipped(&path, &key()).is_some());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("set");
        assert_eq!(shipped(&path, &key()), None);
        let (_other, outside) = write("b.json", format!("[{}]", text("5.0", "5.0")).as_bytes());
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink(&outside, &path).expect("linked");
        assert_eq!(shipped(&path, &key()), None, "a link that leads out of the folder");
    }

    #[test]
    fn large_deep_and_odd_files_are_left_out() {
        let padded = format!("{}{}", text("5.0", "5.0"), " ".repeat(BYTES_MAX as usize));
        let deep = "[".repeat(100_000);
        for content in
            [padded.as_bytes(), deep.as_bytes(), b"", b"\xff\xfe", b"null", b"[]", b"{\"schema\":1}"]
        {
            let (_folder, path) = write("a.json", content);
            assert_eq!((single(&path, &key()), shipped(&path, &key())), (None, None));
        }
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(single(folder.path(), &key()), None, "a folder");
        assert_eq!(single(&folder.path().join("none"), &key()), None);
        assert_eq!(single(Path::new("/dev/zero"), &key()), None, "a file without end");
    }

    proptest! {
        #[test]
        fn no_bytes_crash_it(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..400) {
            let mut whole = text("5.0", "5.0").into_bytes();
            let at = at.min(whole.len());
            let end = (at + bytes.len()).min(whole.len());
            whole[at..end].copy_from_slice(&bytes[..end - at]);
            let (_folder, path) = write("a.json", &whole);
            // Where it still reads, it still holds.
            if let Some(record) = single(&path, &key()) {
                for (fact, measured) in &record.facts {
                    prop_assert!(fact.plausible().contains(&measured.value));
                }
            }
        }
    }
}
