//! `calibrate` where something stands in its way: a recorded defect, a file others may write, no place to write to.

use serde_json::Value;

use crate::program::{bare, finish, with_plugins};

fn json(command: std::process::Command) -> Value {
    let run = finish(command);
    assert_eq!(run.code, Some(0), "{run:?}");
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

/// A home with an operator's record of rows.
fn with_defect(rows: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().expect("a folder");
    let defects = home.path().join("cajeta/defects");
    std::fs::create_dir_all(&defects).expect("made");
    let record = format!("schema = 1\n[[defect]]\nrow = '{rows}'\nbackend = 'cpu'\nreason = 'hangs'\n");
    std::fs::write(defects.join("hangs.toml"), record).expect("written");
    home
}

#[test]
fn a_calibration_runs_no_row_with_a_recorded_defect() {
    let home = with_defect("add*");
    let mut command = with_plugins(&["calibrate", "--json", "--busy"]);
    command.env("XDG_CONFIG_HOME", home.path()).env("XDG_CACHE_HOME", home.path().join("cache"));
    let measured = json(command);
    let facts = measured["facts"].as_object().expect("facts");
    assert!(facts.values().all(|fact| !fact["by"].as_str().expect("text").starts_with("add")), "{measured}");
    assert!(facts["launch_ns"]["by"].as_str().expect("text").starts_with("copy"), "the next row: {measured}");
}

#[test]
fn a_kept_calibration_that_others_may_write_is_warned_of_and_not_shown() {
    use std::os::unix::fs::PermissionsExt;

    let cache = tempfile::tempdir().expect("a folder");
    let calibrate = |args: &[&str]| {
        let mut command = with_plugins(&[&["calibrate"], args].concat());
        command.env("XDG_CACHE_HOME", cache.path());
        finish(command)
    };
    let kept: Value = serde_json::from_str(&calibrate(&["--busy", "--json"]).out).expect("json");
    let path = std::path::PathBuf::from(kept["path"].as_str().expect("kept"));
    assert_eq!(calibrate(&["--show"]).code, Some(0));
    let mode = |path: &std::path::Path, mode: u32| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
    };
    mode(&path, 0o666);
    let run = calibrate(&["--show"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let warning = run.err.lines().next().expect("a warning");
    assert!(warning.contains(": it is writable by everybody"), "{warning}");
    assert_eq!(warning.matches(&*path.display().to_string()).count(), 1, "{warning}");
    mode(&path, 0o600);
    mode(path.parent().expect("a folder"), 0o777);
    let run = calibrate(&["--show"]);
    assert!(run.code == Some(1) && run.err.contains("is writable by everybody"), "{run:?}");
}

#[test]
fn what_cannot_be_written_is_said_before_anything_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    for path in [pipe.clone(), folder.path().to_owned(), "/nonexistent/x".into()] {
        let run = finish(with_plugins(&["calibrate", "--snapshot", &path.display().to_string()]));
        assert!(run.code == Some(1) && run.err.contains("cannot be written"), "{run:?}");
        assert!(!run.err.contains("measuring"), "{run:?}");
    }
    let mut command = bare(&["tune", "list"]);
    command.env("CAJETA_RECORDS", &pipe);
    let run = finish(command);
    assert!(run.code == Some(1) && run.err.contains("nobody reads"), "{run:?}");
}

#[test]
fn a_limit_on_files_is_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = bare(&["tune"]).get_program().to_owned();
    let limited = |script: &str| {
        let mut command = with_plugins(&[]);
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", &format!("ulimit -f 0; {script}"), "sh"])
            .arg(&program)
            .stdin(std::process::Stdio::null());
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell.env("XDG_CACHE_HOME", folder.path()).env("CAJETA_RECORDS", folder.path().join("records"));
        command = shell;
        finish(command)
    };
    let run = limited("\"$1\" calibrate --busy");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("all after it are lost"), "{run:?}");
    assert!(run.out.contains("not kept: File too large"), "{run:?}");
    let snapshot = folder.path().join("x.json");
    let run = limited(&format!("\"$1\" calibrate --busy --snapshot {}", snapshot.display()));
    assert!(run.code == Some(1) && run.err.contains("is not written: File too large"), "{run:?}");
    assert!(!snapshot.exists());
}
