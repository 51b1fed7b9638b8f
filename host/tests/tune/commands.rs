//! The commands about measurements, as their users meet them.

use cajeta::tune::store::{Autotune, DeviceKey};
use cajeta_abi::{DeviceFacts, Fact};
use serde_json::Value;

use crate::program::{bare, finish, with_plugins};

fn json(command: std::process::Command) -> Value {
    let run = finish(command);
    assert_eq!(run.code, Some(0), "{run:?}");
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

#[test]
fn what_is_remembered_is_listed_and_forgotten_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut facts = DeviceFacts::NONE;
    facts.set(Fact::MULTIPROCESSORS, 16);
    let store = Autotune::open(Some(folder.path()), &DeviceKey::new("some", &facts));
    store.remember("shape.q4kTcTile.512x4096x4096", "q4kTcTile128");
    store.remember("partWgs", "8");
    let tune = |args: &[&str]| {
        let mut command = bare(&[&["tune"], args].concat());
        command.env("CAJETA_LLM_TUNE_DIR", folder.path());
        command
    };
    let listed = json(tune(&["list", "--json"]));
    let entries = listed["entries"].as_array().expect("a list");
    assert_eq!(entries.len(), 2);
    assert_eq!((&entries[0]["name"], &entries[0]["answer"]), (&"partWgs".into(), &"8".into()));
    let text = finish(tune(&["list", "shape."]));
    assert!(text.out.contains("q4kTcTile128") && !text.out.contains("partWgs"), "{text:?}");

    assert_eq!(json(tune(&["clear", "shape.", "--json"]))["cleared"], 1);
    assert_eq!(json(tune(&["list", "--json"]))["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(finish(tune(&["clear"])).code, Some(0));
    assert!(finish(tune(&["list"])).out.contains("nothing is remembered"));
}

#[test]
fn a_store_that_is_off_is_an_error_that_says_how_to_name_one() {
    let mut command = bare(&["tune", "list"]);
    command.env("CAJETA_LLM_TUNE_DIR", "off");
    let run = finish(command);
    assert_eq!((run.code, run.out.as_str()), (Some(1), ""));
    assert!(run.err.contains("CAJETA_LLM_TUNE_DIR") && run.err.lines().count() == 1, "{run:?}");
}

#[test]
fn a_calibration_measures_what_the_rows_can_and_says_what_they_cannot() {
    let folder = tempfile::tempdir().expect("a folder");
    let snapshot = folder.path().join("device.json");
    let records = folder.path().join("records.jsonl");
    // Other tests may run meanwhile; a snapshot of a busy machine has to be asked for.
    let snapshot_flag = ["--snapshot", &snapshot.display().to_string()];
    let mut command = with_plugins(&[&["calibrate", "--json", "--busy"], &snapshot_flag[..]].concat());
    command.env("CAJETA_RECORDS", &records);
    let measured = json(command);
    let facts = &measured["facts"];
    for name in [
        "event_clock_scale",
        "bandwidth_idle_bytes_per_s",
        "bandwidth_under_host_load_bytes_per_s",
        "bytes_in_flight",
        "peak_f32_flops",
        "ridge_f32_flops_per_byte",
        "launch_ns",
        "round_trip_ns",
        "event_ns",
        "inter_queue_ns",
    ] {
        assert!(facts[name]["value"].as_f64().is_some_and(|value| value >= 0.0), "{name}: {measured}");
    }
    assert!(facts["bandwidth_idle_bytes_per_s"]["value"].as_f64() > Some(1e8), "{measured}");
    // No row of this backend multiplies in int8, and nobody guesses how fast it would.
    assert!(measured["absent"]["peak_int8_ops"].is_string(), "{measured}");
    assert_eq!(measured["origin"], "measured");

    let shipped: Value =
        serde_json::from_str(&std::fs::read_to_string(&snapshot).expect("written")).expect("json");
    assert_eq!(shipped[0]["facts"], *facts);
    let kept = std::fs::read_to_string(&records).expect("records");
    let kept: Vec<Value> = kept.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let of = |kind: &str| kept.iter().filter(|record| record["record"] == kind).count();
    assert!(of("calibration") >= 10 && of("event-clock") >= 1, "{kept:?}");

    let mut show = with_plugins(&["calibrate", "--show"]);
    show.env("XDG_CACHE_HOME", folder.path());
    let run = finish(show);
    assert_eq!(run.code, Some(1), "a snapshot is kept nowhere else: {run:?}");
    assert!(run.err.contains("cajeta calibrate"), "{run:?}");
}

#[test]
fn what_a_plugin_ships_comes_before_what_was_measured_here() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().expect("a folder");
    for file in ["libcajeta_backend_cpu.so", "cajeta-backend-cpu.toml"] {
        std::fs::copy(crate::program::plugins().join(file), folder.path().join(file)).expect("copied");
    }
    let calibrate = |args: &[&str]| {
        let mut command = with_plugins(&[&["calibrate", "--json"], args].concat());
        command.env("CAJETA_PLUGIN_PATH", folder.path()).env("XDG_CACHE_HOME", folder.path().join("cache"));
        command
    };
    let measured = json(calibrate(&["--busy"]));
    let shown = json(calibrate(&["--show"]));
    assert_eq!((&shown["origin"], &shown["facts"]), (&"platform".into(), &measured["facts"]));

    // What the author of the plugin measured, on another day.
    let kept = std::fs::read_to_string(shown["path"].as_str().expect("a path")).expect("kept");
    let mut record: Value = serde_json::from_str(&kept).expect("json");
    record["facts"]["launch_ns"]["value"] = 12345.0.into();
    let shipped = folder.path().join("cajeta-backend-cpu.calibration.json");
    let write = |record: &Value, mode: u32| {
        std::fs::write(&shipped, serde_json::json!([record]).to_string()).expect("written");
        std::fs::set_permissions(&shipped, std::fs::Permissions::from_mode(mode)).expect("set");
    };
    write(&record, 0o644);
    let shown = json(calibrate(&["--show"]));
    assert_eq!((&shown["origin"], &shown["facts"]), (&"shipped".into(), &record["facts"]));

    // Of another driver, of another form, impossible, and writable by others: what was measured here serves.
    let with = |at: &str, value: Value| {
        let mut changed = record.clone();
        *changed.pointer_mut(at).expect(at) = value;
        changed
    };
    for (changed, mode, words) in [
        (with("/key/driver", "another".into()), 0o644, ""),
        (with("/schema", 2.into()), 0o644, "schema 2 is not known"),
        (with("/facts/launch_ns/value", (-1).into()), 0o644, "launch_ns is -1e0"),
        (record.clone(), 0o666, "writable by everybody"),
    ] {
        write(&changed, mode);
        let run = finish(calibrate(&["--show"]));
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.err.contains(words) && run.err.is_empty() == words.is_empty(), "{words}: {run:?}");
        let shown: Value = serde_json::from_str(&run.out).expect("json");
        assert_eq!(shown["origin"], "platform", "{words}");
    }
}
