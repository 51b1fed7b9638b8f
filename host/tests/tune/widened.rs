//! Prefill over widened weights: when it is asked about, what is made resident for it, and that it answers
//! as blocks do.

use std::path::Path;

use cajeta::tune::key::{DEQ, TILE_BEATS_DEQ};
use cajeta::tune::store::list;
use cajeta::tune::{Answers, Premises, Spent};
use cajeta_abi::{LayoutId, Problem};
use cajeta_plugin_host::Device;
use serde_json::Value;

use crate::program::{finish, ids, model, with_plugins};
use crate::{Q4_K, open, tuning, usable};

/// Enough tokens that widened weights serve their prefill.
const PROMPT: &str = "Once upon a time there was a little girl named Lily who liked to play in the park.";

/// What a run said and answered.
struct Run {
    records: Vec<Value>,
    ids: Vec<u64>,
}

impl Run {
    /// In chunks about as long as the prompt.
    fn with(flags: &[&str]) -> Run {
        Run::chunked("16", flags)
    }

    fn chunked(chunk: &str, flags: &[&str]) -> Run {
        let folder = tempfile::tempdir().expect("a folder");
        let records = folder.path().join("records.jsonl");
        let model = model();
        let args = ["run", &model, "-p", PROMPT, "--raw", "-n", "8", "--temp", "0", "--json"];
        let mut command = with_plugins(
            &[&args[..], &["--tune-dir", "off", "--no-warm-up", "--chunk", chunk], flags].concat(),
        );
        // The reference backend's rows over widened weights come first.
        command.env("CAJETA_RECORDS", &records).env("CAJETA_REFERENCE_ROWS", "all");
        let run = finish(command);
        let ids = ids(&run.json()["generated_ids"]);
        let text = std::fs::read_to_string(&records).expect("records");
        let records = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        Run { records, ids }
    }

    fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.records.iter().filter(move |record| record["record"] == kind)
    }

    fn packed(&self) -> u64 {
        let phase = self.of("load-phase").next().expect("a load");
        phase["packed_bytes"].as_u64().expect("bytes")
    }

    /// Whether the prefill ran on a row of such a name. A warm-up would say the rows of a short one first.
    fn prefills_on(&self, part: &str) -> bool {
        self.of("batch-route").any(|route| {
            let (name, rows) = (route["row"].as_str().expect("a name"), &route["problem"][0]);
            route["regime"] == "prefill-batch" && rows.as_u64() > Some(8) && name.contains(part)
        })
    }
}

#[test]
fn pinned_answers_route_as_they_say_and_answer_alike() {
    let tile = Run::with(&["--prefer", "tileBeatsDeq=tile"]);
    assert!(tile.prefills_on("PanelGemm") && !tile.prefills_on("DeqGemm"));
    assert_eq!((tile.packed(), tile.of("widen-budget").count()), (0, 0));

    let deq = Run::with(&["--prefer", "tileBeatsDeq=deq"]);
    assert!(deq.prefills_on("DeqGemm") && !deq.prefills_on("PanelGemm"));
    let budget = deq.of("widen-budget").next().expect("it is said");
    assert_eq!((&budget["policy"], &budget["declined"]), (&"auto".into(), &0.into()));
    assert!(budget["copies"].as_u64() > Some(10), "{budget}");
    assert_eq!(budget["copied_bytes"].as_u64(), Some(deq.packed()));
    // The same products in the same order: what is decoded when makes no difference.
    assert_eq!(deq.ids, tile.ids);
}

#[test]
fn few_rows_stay_with_the_tile_where_many_were_asked_about() {
    let run = Run::chunked("64", &["--prefer", "tileBeatsDeq=deq"]);
    assert!(run.packed() > 0 && run.prefills_on("PanelGemm") && !run.prefills_on("DeqGemm"));
}

#[test]
fn one_format_is_pinned_by_its_name() {
    let run = Run::with(&["--prefer", "tileBeatsDeq-q6k=deq"]);
    assert!(run.prefills_on("q6kDeqGemm") && !run.prefills_on("q4kDeqGemm"));
    assert!(run.prefills_on("q4kPanelGemm"));
}

#[test]
fn what_the_budget_has_no_room_for_is_declined_and_served_from_blocks() {
    let all = Run::with(&["--prefer", "tileBeatsDeq=deq"]);
    let half = all.packed() / 2;
    let some = Run::with(&["--prefer", "tileBeatsDeq=deq", "--widen-budget", &half.to_string()]);
    let budget = some.of("widen-budget").next().expect("it is said");
    assert_eq!((&budget["policy"], &budget["budget_bytes"]), (&"given".into(), &half.into()));
    assert!(some.packed() > 0 && some.packed() <= half, "{budget}");
    let declined = budget["declined_bytes"].as_u64().expect("bytes");
    assert_eq!(declined + some.packed(), all.packed());
    assert!(budget["first_declined"].as_str().is_some_and(|name| name.starts_with("blk.")), "{budget}");
    assert!(some.prefills_on("DeqGemm") && some.prefills_on("PanelGemm"));
    assert_eq!(some.ids, all.ids);

    let none = Run::with(&["--prefer", "tileBeatsDeq=deq", "--widen-budget", "0"]);
    let asked = |run: &Run| {
        let names = run.of("probe").map(|probe| probe["probe"].as_str().expect("a name").to_owned());
        names.filter(|name| name.starts_with(TILE_BEATS_DEQ)).count()
    };
    assert!(asked(&all) > 0, "the same names are there where it is asked");
    assert_eq!(asked(&none), 0, "nothing is asked");
    assert_eq!((none.packed(), none.prefills_on("DeqGemm")), (0, false));
}

#[test]
fn copies_that_declared_order_wants_keep_to_the_budget_too() {
    let on = |flags: &[&str]| Run::with(&[&["--backend", "reference"], flags].concat());
    let all = on(&[]);
    assert!(all.packed() > 0 && all.prefills_on("refMatMulExpandedQ6k"));
    let budget = all.packed() - 1;
    let some = on(&["--widen-budget", &budget.to_string()]);
    let said = some.of("widen-budget").next().expect("it is said");
    assert!(said["declined"].as_u64() > Some(0) && some.packed() <= budget, "{said}");
    let none = on(&["--widen-budget", "0"]);
    assert_eq!((none.packed(), none.prefills_on("refMatMulExpandedQ6k")), (0, false));
}

/// Whether the tile beats the widened route for Q4_K, at a problem that takes little time.
fn ask(device: &Device, folder: &Path, pinned: Option<&str>) -> (Answers, Spent) {
    let tuning = tuning(device, folder);
    tuning.set_override(TILE_BEATS_DEQ, pinned);
    let usable = usable(device);
    let mut premises = Premises::new(&tuning, device, &usable);
    let problem = Problem { m: 64, n: 96, k: 256, ..Problem::default() };
    let widens = |layout: LayoutId| layout.0 >= LayoutId::OWN.0;
    premises.tile_beats_deq(Q4_K, 64, &problem, &widens, None).expect("settled");
    (premises.finish(), tuning.spent())
}

#[test]
fn every_process_asks_again_and_stores_nothing() {
    let (device, folder) = (open("cpu"), tempfile::tempdir().expect("a folder"));
    for _ in 0..2 {
        let (_, Spent { stored, memory }) = ask(&device, folder.path(), None);
        assert!(stored == 0 && memory > 40, "{stored} and {memory} launches");
    }
    assert!(list(folder.path()).expect("readable").is_empty(), "kept in memory only");
    let (pinned, spent) = ask(&device, folder.path(), Some(DEQ));
    assert_eq!(spent, Spent::default(), "what is pinned is not timed");
    assert!(!pinned.is_empty());
}
