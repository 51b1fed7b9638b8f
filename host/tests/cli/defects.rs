//! Defect records: what they name is kept out, for its devices and drivers alone, and is said.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::program::*;

/// The folder of settings with an operator's record of a row; `range` are further lines of it.
fn settings(row: &str, range: &str) -> tempfile::TempDir {
    let settings = tempfile::tempdir().expect("a folder");
    let defects = settings.path().join("cajeta/defects");
    std::fs::create_dir_all(&defects).expect("made");
    let record = format!("schema = 1\n[[defect]]\nrow = '{row}'\nreason = 'answers nonsense'\n{range}");
    std::fs::write(defects.join("nonsense.toml"), record).expect("written");
    settings
}

fn with(settings: &Path, mut command: Command) -> Command {
    command.env("XDG_CONFIG_HOME", settings);
    command
}

/// The rows that serve the model's decode step, and what is said of the rest.
fn decode(report: &Value) -> (Vec<&str>, String) {
    let launches = report["segments"][0]["launches"].as_array().expect("launches");
    let rows = launches.iter().map(|launch| launch["row"].as_str().expect("a name")).collect();
    (rows, report["segments"][0].to_string())
}

/// The row of a launch of the decode step.
fn row_of(report: &Value, what: &str) -> String {
    let launches = report["segments"][0]["launches"].as_array().expect("launches");
    let launch = launches.iter().find(|launch| launch["what"] == what).expect(what);
    launch["row"].as_str().expect("a name").to_owned()
}

/// The row of the last norm: of several, each for the instructions of some processors.
fn norm(report: &Value) -> String {
    row_of(report, "norm output_norm")
}

#[test]
fn the_serving_row_is_kept_out_and_the_next_serves() {
    let kernels = ["kernels", &model(), "--json"];
    let serving = norm(&finish(with_plugins(&kernels)).json());
    let devices = finish(with_plugins(&["devices", "--json"])).json();
    let backends = devices["backends"].as_array().expect("a list");
    let cpu = backends.iter().find(|backend| backend["backend"] == "cpu").expect("the processor");
    let device = &cpu["devices"][0];
    let (name, target) = (device["name"].as_str().expect("text"), device["target"].as_str().expect("text"));
    let said =
        format!("a recorded defect: answers nonsense ({serving} on {name} for {target}, by nonsense.toml)");

    let on = |name: &str, target: &str| format!("backend = 'cpu'\ndevice = '{name}'\ntarget = '{target}'\n");
    let here = settings(&serving, &on(name, target));
    let kept_out = finish(with(here.path(), with_plugins(&kernels)));
    if serving == "rmsNorm" {
        // This processor has no wider instructions: nothing is left to serve.
        kept_out.failure(1, &[&said]);
        return;
    }
    let report = kept_out.json();
    let (rows, words) = decode(&report);
    assert!(!rows.contains(&serving.as_str()) && norm(&report) != serving, "{rows:?}");
    assert!(words.contains(&said), "{said} is not in {words}");
    let text = finish(with(here.path(), with_plugins(&["kernels", &model()]))).success();
    assert!(text.contains(&format!("refused {serving}: unsupported: {said}")), "{text}");

    // Another device, target or backend is not concerned.
    for range in [on("Model X of nobody", target), on(name, "t9"), "backend = 'reference'\n".to_owned()] {
        let elsewhere = settings(&serving, &range);
        let report = finish(with(elsewhere.path(), with_plugins(&kernels))).json();
        assert_eq!(norm(&report), serving, "{range}");
    }
}

#[test]
fn a_run_answers_without_the_row_and_says_so_where_asked() {
    let serving = row_of(&finish(with_plugins(&["kernels", &model(), "--json"])).json(), "matmul logits");
    let run = ["run", &model(), "-p", "Once upon a time", "--raw", "-n", "8", "--temp", "0"];
    let plain = finish(with_plugins(&run)).success();
    let out = settings("rmsNorm*", "backend = 'cpu'\n");
    let none_left = finish(with(out.path(), with_plugins(&run)));
    none_left.failure(1, &["norm", "a recorded defect: answers nonsense (rmsNorm*, by nonsense.toml)"]);
    // Of the products some are for the instructions of some processors, and one is for all.
    if serving != "q6kWaveMatVec" {
        let out = settings(&serving, "");
        let mut command = with(out.path(), with_plugins(&run));
        command.env("CAJETA_LOG", "info");
        let answered = finish(command);
        assert!(answered.err.contains(&format!("({serving}, by nonsense.toml)")), "{}", answered.err);
        assert_eq!(answered.success(), plain, "another order of a sum, the same story");
    }
}

#[test]
fn a_driver_outside_the_range_is_not_concerned() {
    let kernels = ["kernels", &model(), "--json"];
    let devices = finish(on_reference(&["devices", "--json"], &[])).json();
    let driver = devices.to_string();
    assert!(driver.contains("\"driver\":\"0.1.0\""), "the ranges below are about this one: {driver}");
    let serving = norm(&finish(on_reference(&kernels, &[])).json());
    for (range, holds) in [
        ("driver_from = '0.1'\n", true),
        ("driver_from = '0.1'\ndriver_below = '0.2'\n", true),
        ("driver_from = '0.1.1'\n", false),
        ("driver_below = '0.1.0'\n", false),
        ("driver_below = '0.1.0.1'\n", true),
    ] {
        let settings = settings(&serving, range);
        let run = finish(with(settings.path(), on_reference(&kernels, &[])));
        let said = format!("a recorded defect: answers nonsense ({serving}, driver ");
        // The reference backend may have no other row for it.
        let kept_out = match run.code {
            Some(0) => norm(&run.json()) != serving,
            _ => run.err.contains(&said),
        };
        assert_eq!(kept_out, holds, "{range}");
    }
}

#[test]
fn what_does_not_read_or_names_nothing_is_warned_of() {
    let kernels = ["kernels", &model()];
    for (row, range, words) in [
        ("q4kNothing", "backend = 'cpu'\n", ["nonsense.toml", "has no row `q4kNothing`"]),
        ("rmsNorm*", "since = 3\n", ["none of its defect records holds", "since"]),
        ("rmsNorm*", "driver_below = 'old'\n", ["none of its defect records holds", "`old`"]),
        ("rms*Norm", "", ["nonsense.toml", "at its end"]),
        ("rmsNorm*", "backend = '*'\n", ["none of its defect records holds", "no backend"]),
        ("q4kNothing", "", ["has no row `q4kNothing`", "should name that"]),
    ] {
        let settings = settings(row, range);
        let run = finish(with(settings.path(), with_plugins(&kernels)));
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(words.iter().all(|word| run.err.contains(word)), "{row}: {}", run.err);
        assert!(!run.out.contains("recorded defect"), "{}", run.out);
    }
}

#[test]
fn a_record_shipped_beside_the_plugin_holds_unless_others_may_write_it() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().expect("a folder");
    for file in ["libcajeta_backend_cpu.so", "cajeta-backend-cpu.toml"] {
        std::fs::copy(plugins().join(file), folder.path().join(file)).expect("copied");
    }
    let record = folder.path().join("cajeta-defects-cpu.toml");
    let text = "schema = 1\n[[defect]]\nrow = 'sampleRow*'\nreason = 'always says the'\n";
    std::fs::write(&record, text).expect("written");
    let kernels = |mode| {
        std::fs::set_permissions(&record, std::fs::Permissions::from_mode(mode)).expect("set");
        let mut command = with_plugins(&["kernels", &model()]);
        command.env("CAJETA_PLUGIN_PATH", folder.path());
        finish(command)
    };
    kernels(0o644).failure(1, &["always says the (sampleRow*, by cajeta-defects-cpu.toml)"]);
    let run = kernels(0o666);
    assert!(run.code == Some(0) && run.err.contains("writable by everybody"), "{run:?}");
}

#[test]
fn the_trial_kernel_of_a_probe_is_no_row_with_a_defect() {
    let trial = |settings: &Path, cache: &Path| {
        let mut command = with(settings, with_plugins(&["backends", "--explain", "--json"]));
        command.env("XDG_CACHE_HOME", cache);
        let explained = finish(command).json();
        let candidates = explained["candidates"].as_array().expect("a list").clone();
        let cpu =
            candidates.iter().find(|candidate| candidate["id"] == "cpu").expect("the processor").clone();
        assert_eq!(cpu["outcome"]["state"], "usable", "{cpu}");
        cpu["outcome"]["kernel"].as_str().expect("a name").to_owned()
    };
    let (nothing, cache) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let usual = trial(nothing.path(), cache.path());
    assert!(!usual.is_empty());
    // Also where a stored success tells of the usual one.
    let other = trial(settings(&usual, "").path(), cache.path());
    assert!(other != usual && !other.is_empty(), "{other} in place of {usual}");
    assert_eq!(trial(settings(&usual, "device = 'Model X of nobody'\n").path(), cache.path()), usual);
    let both = settings("add*", "backend = 'cpu'\n[[defect]]\nrow = 'copy*'\nreason = 'ends the process'\n");
    let left = trial(both.path(), cache.path());
    assert!(!left.starts_with("add") && !left.starts_with("copy"), "{left}");
    assert_eq!(trial(nothing.path(), cache.path()), usual);
}
