//! What loading a model measures, as its users meet it: once, within bounds, or not at all.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::program::{finish, ids, model, with_plugins};

/// Loads after which everything is settled, unless others hold the device throughout.
const LOADS: u32 = 8;

/// A load and a short greedy answer.
struct Load {
    records: Vec<Value>,
    ids: Vec<u64>,
    err: String,
}

impl Load {
    /// With measured choices kept in `tune_dir`.
    fn with(tune_dir: &Path) -> Load {
        let folder = tempfile::tempdir().expect("a folder");
        let records = folder.path().join("records.jsonl");
        let model = model();
        let tune_dir = tune_dir.display().to_string();
        let args = ["run", &model, "-p", "Once upon a time", "--raw", "-n", "8", "--temp", "0", "--json"];
        let mut command = with_plugins(&[&args[..], &["--tune-dir", &tune_dir]].concat());
        command.env("CAJETA_RECORDS", &records);
        let run = finish(command);
        let err = run.err.clone();
        let ids = ids(&run.json()["generated_ids"]);
        let text = std::fs::read_to_string(&records).expect("records");
        let records = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        Load { records, ids, err }
    }

    fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.records.iter().filter(move |record| record["record"] == kind)
    }

    /// The only record of a kind.
    #[track_caller]
    fn only<'a>(&'a self, kind: &'a str) -> &'a Value {
        let found: Vec<&Value> = self.of(kind).collect();
        assert_eq!(found.len(), 1, "{kind}: {found:?}");
        found[0]
    }

    fn stored_launches(&self) -> u64 {
        self.only("load-phase")["stored_probe_launches"].as_u64().expect("a number")
    }

    /// Questions that were settled so, by their names.
    fn answered(&self, how: &str, kept: bool) -> BTreeSet<String> {
        // Each process asks for itself whether widened weights pay.
        let in_memory =
            |probe: &&Value| probe["probe"].as_str().is_some_and(|name| name.starts_with("tileBeatsDeq"));
        let probes = self.of("probe").filter(|probe| !in_memory(probe));
        let choices = self.of("tile-choice").chain(probes);
        let settled =
            choices.filter(|choice| choice["answered"] == how && choice["not_stored"].is_null() == kept);
        settled
            .map(|choice| format!("{}{}{}", choice["family"], choice["problem"], choice["probe"]))
            .collect()
    }
}

#[test]
fn what_one_load_measured_and_kept_no_other_measures() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut kept, mut busy) = (BTreeSet::new(), 0);
    // A busy machine puts measuring off and a load measures for so long only: there may be many.
    for _ in 0..LOADS {
        let load = Load::with(folder.path());
        let measured = load.answered("measured", true);
        assert!(kept.is_disjoint(&measured), "{:?}", kept.intersection(&measured));
        let settled = load.answered("held", true).is_empty() && load.answered("measured", false).is_empty();
        // It times nothing because others hold the device, or says why it keeps nothing.
        busy += u32::from(load.stored_launches() == 0 || !load.answered("measured", false).is_empty());
        if measured.is_empty() && settled {
            assert!(!kept.is_empty(), "a model asks something");
            assert_eq!(load.stored_launches(), 0, "everything was remembered");
            assert!(load.answered("stored", true).is_superset(&kept));
            return;
        }
        kept.extend(measured);
        assert!(load.answered("held", true).is_disjoint(&kept), "what is kept answers");
    }
    assert!(
        !kept.is_empty() || busy == LOADS,
        "{busy} of {LOADS} loads found the device busy, and none kept a thing"
    );
}

#[test]
fn a_load_says_what_it_did() {
    let load = Load::with(Path::new("off"));
    let phase = load.only("load-phase");
    assert_eq!((&phase["backend"], phase["stored_probe_launches"].as_u64()), (&"cpu".into(), Some(0)));
    assert_eq!(phase["memory_probe_launches"], 0);
    let bytes = |name: &str| phase[name].as_u64().expect("bytes");
    assert!(bytes("mapped_bytes") + bytes("uploaded_bytes") > 3_000_000, "{phase}");
    let parts = ["read_ms", "device_ms", "weights_ms", "prewarm_ms", "warm_up_ms"];
    let sum: f64 = parts.iter().map(|part| phase[part].as_f64().expect("a time")).sum();
    assert!(phase["warm_up_ms"].as_f64() > Some(0.0) && phase["total_ms"].as_f64() >= Some(sum), "{phase}");
    assert_eq!(load.only("decode-mode")["mode"], "single");
    let ceiling = load.only("kv-ceiling");
    // 1024 positions in blocks of 16.
    assert_eq!((&ceiling["blocks"], &ceiling["most_blocks"]), (&64.into(), &64.into()));
    assert!(load.of("tile-choice").chain(load.of("probe")).next().is_none(), "nothing is asked");
}

#[test]
fn greedy_answers_are_the_same_with_and_without_measuring() {
    let folder = tempfile::tempdir().expect("a folder");
    let declared = Load::with(Path::new("off"));
    for _ in 0..2 {
        assert_eq!(Load::with(folder.path()).ids, declared.ids);
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_said_once_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    // For those who may write anywhere, a file where the folder should be; else no right to write.
    let inside = folder.path().join("file");
    std::fs::write(&inside, "no folder").expect("written");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500)).expect("set");
    let load = Load::with(&inside.join("tune"));
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).expect("set");
    assert_eq!(load.ids.len(), 8);
    let kept = !load.answered("measured", true).is_empty();
    assert_eq!(load.of("tune-store").count(), usize::from(kept), "{:?}", load.err);
    assert_eq!(load.err.lines().filter(|line| line.contains("tune-store")).count(), usize::from(kept));
}
