//! The commands about measurements, as their users meet them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cajeta::tune::store::{Autotune, DeviceKey};
use cajeta_abi::{DeviceFacts, Fact};
use serde_json::Value;

use crate::program::{bare, finish, model, with_plugins};

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
fn clearing_takes_the_stores_own_files_and_no_others() {
    let project = tempfile::tempdir().expect("a folder");
    let outside = tempfile::tempdir().expect("a folder");
    let at = |name: &str| project.path().join(name);
    std::fs::create_dir(at("src")).expect("made");
    std::fs::create_dir(at("empty")).expect("made");
    std::fs::write(at("src/main.rs"), "fn main() {}").expect("written");
    std::fs::write(outside.path().join("precious"), "cajeta-tune of mine").expect("written");
    std::os::unix::fs::symlink(outside.path(), at("link")).expect("linked");
    let store = remembers(project.path(), "some");
    let device = store.folder().expect("known").to_path_buf();
    std::fs::write(device.join("notes.txt"), "mine").expect("written");
    std::os::unix::fs::symlink(outside.path().join("precious"), device.join("b")).expect("linked");
    let linked = remembers(outside.path(), "other");
    let linked = linked.folder().expect("known");
    std::os::unix::fs::symlink(linked, at(&linked.file_name().expect("a name").to_string_lossy()))
        .expect("linked");

    let mut clear = bare(&["tune", "clear"]);
    clear.env("CAJETA_LLM_TUNE_DIR", ".").current_dir(project.path());
    let run = finish(clear);
    assert_eq!(run.code, Some(0), "{run:?}");
    // src, empty, two links beside them, notes.txt and a link beside those.
    assert!(
        run.out.starts_with("2 choices forgotten") && run.out.contains("; 6 other files left alone"),
        "{run:?}"
    );
    for kept in [
        at("src/main.rs"),
        at("empty"),
        device.join("notes.txt"),
        outside.path().join("precious"),
        linked.join("a"),
    ] {
        assert!(kept.exists(), "{}", kept.display());
    }
    assert!(!device.join("a").exists());
}

/// A store with two choices.
fn remembers(directory: &Path, backend: &str) -> Autotune {
    let mut facts = DeviceFacts::NONE;
    facts.set(Fact::MULTIPROCESSORS, 16);
    let store = Autotune::open(Some(directory), &DeviceKey::new(backend, &facts));
    store.remember("a", "1");
    store.remember("partWgs", "8");
    store
}

#[test]
fn names_that_are_no_text_or_steer_a_terminal_are_listed_whole_and_harmless() {
    use std::os::unix::ffi::OsStrExt;

    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join(std::ffi::OsStr::from_bytes(b"sto\xffre\x1b[2J"));
    let store = remembers(&directory, "some");
    store.remember("na\u{1b}[31mme", "an\u{7}swer");
    let device = store.folder().expect("known");
    std::fs::copy(device.join("a"), device.join(std::ffi::OsStr::from_bytes(b"b\xfe\x1b[2J")))
        .expect("copied");
    let cut = "cajeta-tune 1\nname cut\n";
    std::fs::write(device.join(std::ffi::OsStr::from_bytes(b"c\xfd\x1b[2J")), cut).expect("written");
    let tune = |args: &[&str]| {
        let mut command = bare(&[&["tune"], args].concat());
        command.env("CAJETA_LLM_TUNE_DIR", &directory);
        command
    };
    let listed = json(tune(&["list", "--json"]));
    assert_eq!(listed["entries"].as_array().map(Vec::len), Some(5), "{listed}");
    for args in [&["list", "--timings"][..], &["clear"]] {
        let run = finish(tune(args));
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(!run.out.contains(|c: char| c.is_control() && c != '\n'), "{run:?}");
    }
}

#[test]
fn a_part_that_cannot_be_looked_into_is_named_and_the_rest_is_done() {
    let folder = tempfile::tempdir().expect("a folder");
    remembers(folder.path(), "fine");
    let shared = remembers(folder.path(), "shared");
    let shared = shared.folder().expect("known");
    std::fs::set_permissions(shared, std::fs::Permissions::from_mode(0o777)).expect("set");
    for (args, out) in [(["list"], "fine-mp16"), (["clear"], "2 choices forgotten")] {
        let mut command = bare(&[&["tune"], &args[..]].concat());
        command.env("CAJETA_LLM_TUNE_DIR", folder.path());
        let run = finish(command);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.out.contains(out) && !run.out.contains("shared-mp16"), "{run:?}");
        assert!(run.err.contains("shared-mp16") && run.err.contains("chmod o-w"), "{run:?}");
        assert_eq!(run.err.lines().count(), 1, "{run:?}");
    }
    assert!(shared.join("a").exists());
}

#[test]
fn settings_that_do_not_read_leave_no_store_to_work_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");
    let store = remembers(&cache.join("cajeta-llm/tune"), "some");
    let config = folder.path().join("cajeta");
    std::fs::create_dir(&config).expect("made");
    let file = config.join("cajeta.toml");
    let refused = || {
        for verb in ["list", "clear"] {
            let mut command = bare(&["tune", verb]);
            command.env_remove("CAJETA_LLM_TUNE_DIR").env("XDG_CONFIG_HOME", folder.path());
            command.env("XDG_CACHE_HOME", &cache);
            let run = finish(command);
            assert_eq!((run.code, run.out.as_str()), (Some(1), ""), "{run:?}");
            assert!(run.err.contains("cajeta.toml"), "{run:?}");
        }
        std::fs::remove_file(&file).expect("removed");
    };
    std::fs::write(&file, "tune_dri = '/elsewhere'").expect("written");
    refused();
    std::os::unix::fs::symlink("/dev/zero", &file).expect("linked");
    refused();
    assert!(std::process::Command::new("mkfifo").arg(&file).status().expect("mkfifo runs").success());
    refused();
    assert!(store.folder().expect("known").join("a").exists());
}

#[test]
fn without_a_home_folder_a_load_measures_for_itself_and_says_so_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let load = |dir: Option<&str>| {
        let records = folder.path().join("records.jsonl");
        let model = model();
        let mut command = with_plugins(&["run", &model, "-p", "Once", "--raw", "-n", "2", "--temp", "0"]);
        command.env_remove("HOME").env_remove("XDG_CACHE_HOME").env_remove("CAJETA_LLM_TUNE_DIR");
        command.envs(dir.map(|dir| ("CAJETA_LLM_TUNE_DIR", dir))).env("CAJETA_RECORDS", &records);
        command.current_dir(folder.path());
        let run = finish(command);
        assert_eq!(run.code, Some(0), "{run:?}");
        let text = std::fs::read_to_string(&records).expect("records");
        std::fs::remove_file(&records).expect("removed");
        let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        let of = |kind: &str| records.iter().filter(|record| record["record"] == kind).count();
        let phase = records.iter().find(|record| record["record"] == "load-phase").expect("a load");
        let launches = phase["stored_probe_launches"].as_u64().expect("a number");
        (of("tile-choice") + of("probe"), launches, of("tune-store"), run.err)
    };
    let (asked, launches, said, err) = load(None);
    assert!(asked > 0, "{err}");
    assert_eq!((said, err.matches("no home folder").count()), (1, 1), "{launches} launches: {err}");
    assert!(err.contains("CAJETA_LLM_TUNE_DIR"), "{err}");
    for off in [" OFF", "Off"] {
        let (asked, launches, said, err) = load(Some(off));
        assert_eq!((asked, launches, said), (0, 0, 0), "{err}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 0, "off is no folder");
}

#[test]
fn variables_that_mean_nothing_are_wrong_usage() {
    for (variable, value) in
        [("CAJETA_LLM_SHAPE_OVERRIDE", "nonsense"), ("CAJETA_LOG", "inof"), ("CAJETA_LOG", "warn,verbos")]
    {
        let mut command = bare(&["devices"]);
        command.env(variable, value);
        let run = finish(command);
        assert_eq!((run.code, run.out.as_str()), (Some(2), ""), "{run:?}");
        assert!(run.err.contains(variable) && run.err.lines().count() == 1, "{run:?}");
    }
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
