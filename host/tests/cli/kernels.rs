//! `kernels MODEL`: the row of each op, where the choice came from, and the arms that do not serve.

use serde_json::Value;

use crate::program::*;

/// The projection of the decode step's head.
fn projection(report: &Value) -> &Value {
    let launches = report["segments"][0]["launches"].as_array().expect("launches");
    let q = |launch: &&Value| launch["what"] == "matmul logits";
    launches.iter().find(q).expect("a projection")
}

#[test]
fn each_choice_has_its_origin_and_its_alternatives() {
    let report = finish(with_plugins(&["kernels", &model(), "--json"])).json();
    let q = projection(&report);
    assert_eq!(q["chosen"], "declared");
    let alternatives = q["alternatives"].as_array().expect("a list");
    let portable = alternatives.iter().find(|arm| arm["row"] == "q6kWaveMatVec");
    // Where the portable row itself serves, the others are what was refused.
    match portable {
        Some(arm) => assert_eq!((&arm["ahead"], &arm["clause"]), (&false.into(), &Value::Null)),
        None => {
            assert!(alternatives.iter().all(|arm| arm["ahead"] == true && arm["clause"] == "unsupported"))
        }
    }
    let gates = alternatives[0]["gates"].as_array().expect("a list");
    assert!(gates.iter().any(|gate| gate["gate"] == "K % 256" && gate["value"] == "K=256"), "{gates:?}");
}

/// The launches of a segment.
fn launches(report: &Value, segment: usize) -> &Vec<Value> {
    report["segments"][segment]["launches"].as_array().expect("launches")
}

#[test]
fn an_override_serves_and_is_named_with_what_it_passes_over() {
    let prefer = ["--prefer", "q6kWaveMatVec=q6kWaveMatVec", "--prefer", "q4kWaveMatVecQkv=parts"];
    let report = finish(with_plugins(&[&["kernels", &model(), "--json"], &prefer[..]].concat())).json();
    let logits = |report: &Value| {
        let step = launches(report, 0).iter().find(|launch| launch["what"] == "matmul logits");
        step.expect("logits").clone()
    };
    let told = logits(&report);
    assert_eq!((&told["row"], &told["chosen"]), (&"q6kWaveMatVec".into(), &"overridden".into()));
    let row = |launch: &Value| launch["row"].as_str().unwrap_or_default().to_owned();
    assert!(launches(&report, 0).iter().all(|launch| !row(launch).starts_with("q4kWaveMatVecQkv")));
    assert_eq!(report["unused_overrides"], serde_json::json!([]));

    let asked =
        launches(&report, 0).iter().flat_map(|launch| launch["questions"].as_array().expect("a list"));
    let fixed = |question: &Value| {
        question["answered"] == "overridden" && question["timings"] == serde_json::json!([])
    };
    let asked: Vec<&Value> = asked.collect();
    assert!(!asked.is_empty() && asked.iter().all(|question| fixed(question)), "{asked:?}");

    let text = finish(with_plugins(&[&["kernels", &model()], &prefer[..]].concat())).success();
    assert!(text.contains("  fixed ") && !text.contains("  timed ") && !text.contains("ot kept"), "{text}");
    assert!(text.contains(": ready: an override runs its parts"), "{text}");
    // Where the portable row serves anyhow there is none to pass over.
    let passed = text.contains(": an override has q6kWaveMatVec serve\n");
    assert_eq!(
        passed,
        told["alternatives"].as_array().is_some_and(|arms| arms[0]["clause"].is_null()),
        "{text}"
    );

    let mut command = with_plugins(&["kernels", &model(), "--json"]);
    command.env("CAJETA_LLM_SHAPE_OVERRIDE", "q2kWaveMatVec=q2kWaveMatVec, q6kWaveMatVec=q6kWaveMatVec");
    let report = finish(command).json();
    assert_eq!(logits(&report)["chosen"], "overridden");
    assert_eq!(report["unused_overrides"], serde_json::json!(["q2kWaveMatVec=q2kWaveMatVec"]));
}

#[test]
fn an_override_of_what_does_not_exist_names_what_does() {
    let told = |what: &str| finish(with_plugins(&["kernels", &model(), "--prefer", what]));
    told("q6kWaveMatVek=q6kWaveMatVec")
        .failure(1, &["`q6kWaveMatVek`", "no such family", "near it: q6kWaveMatVec"]);
    told("q6kWaveMatVec=q6kWaveMatVak")
        .failure(1, &["`q6kWaveMatVak`", "no such row", "near it: q6kWaveMatVec"]);
    told("q6kWaveMatVec=q4kWaveMatVec").failure(1, &["of the family q4kWaveMatVec"]);
    // The row of a family is no family.
    told("q4kWaveMatVecGateUpSilu=parts").failure(1, &["write `q4kWaveMatVecGateUp=parts`"]);
    told("q6kWaveMatVec").failure(2, &["--prefer", "FAMILY=ROW"]);
    let mut command = with_plugins(&["run", &model(), "-p", "Once", "-n", "1"]);
    command.env("CAJETA_LLM_SHAPE_OVERRIDE", "nonsense");
    finish(command).failure(2, &["CAJETA_LLM_SHAPE_OVERRIDE", "`nonsense`", "FAMILY=ROW"]);
}

#[test]
fn a_run_goes_by_an_override_and_its_records_say_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let records = folder.path().join("records.jsonl");
    let answer = |prefer: &[&str]| {
        let args = ["run", &model(), "-p", "Once upon a time", "--raw", "-n", "8", "--temp", "0", "--json"];
        let mut command = with_plugins(&[&args[..], prefer].concat());
        command.env("CAJETA_RECORDS", &records);
        ids(&finish(command).json()["generated_ids"])
    };
    let plain = answer(&[]);
    std::fs::remove_file(&records).expect("there are records");
    assert_eq!(answer(&["--prefer", "q6kWaveMatVec=q6kWaveMatVec"]), plain);
    let text = std::fs::read_to_string(&records).expect("records");
    let routes = text.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let logits =
        routes.filter(|record| record["record"] == "batch-route" && record["site"] == "matmul logits");
    let logits: Vec<Value> = logits.collect();
    let told = logits.iter().all(|route| route["row"] == "q6kWaveMatVec" && route["chosen"] == "overridden");
    assert!(told && !logits.is_empty(), "{text}");
    // One line says that it is not the row of declared order, and which that is.
    let declared = finish(with_plugins(&["kernels", &model(), "--json"])).json();
    let first = projection(&declared)["row"].clone();
    let instead = if first == "q6kWaveMatVec" { Value::Null } else { first };
    assert!(logits.iter().all(|route| route["instead_of"] == instead), "{text}");
}

/// What was asked about the launches of a report's decode step.
fn questions(report: &Value) -> Vec<Value> {
    let of = |launch: &Value| launch["questions"].as_array().expect("a list").clone();
    launches(report, 0).iter().flat_map(of).collect()
}

#[test]
fn measuring_keeps_what_the_next_look_finds_stored_with_its_timings() {
    found_again(&[]);
}

#[test]
fn a_context_shorter_than_any_that_is_prepared_for_is_found_again() {
    found_again(&["--ctx", "100"]);
}

/// Measures at a context, and looks what is kept.
fn found_again(ctx: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().display().to_string();
    let look = |more: &[&str]| {
        let args = ["kernels", &model(), "--rows", "8", "--tune-dir", &folder];
        finish(with_plugins(&[&args[..], ctx, more].concat()))
    };
    let chosen =
        |report: &Value, origin: &str| launches(report, 0).iter().any(|launch| launch["chosen"] == origin);
    let before = look(&["--json"]).json();
    assert!(questions(&before).is_empty() && !chosen(&before, "measured"), "nothing is timed unasked");

    let measured = look(&["--measure", "--json"]).json();
    let asked = questions(&measured);
    // A processor without vector instructions has one row of each kind, but fusions all the same.
    assert!(!asked.is_empty() && chosen(&measured, "measured"), "{asked:?}");
    for question in &asked {
        let timings = question["timings"].as_array().expect("a list");
        let timed = timings.iter().all(|arm| arm["median_ns"].as_f64() > Some(0.0));
        assert!(timings.len() >= 2 && timed, "{question}");
    }

    // What was measured while others held the processor is not kept.
    let kept: Vec<&Value> = asked.iter().filter(|question| question["kept"] == true).collect();
    let again = look(&["--json"]).json();
    let found = questions(&again);
    let stored = |question: &Value| {
        let mut stored = question.clone();
        stored["answered"] = "stored".into();
        stored
    };
    let known: Vec<Value> = asked.iter().map(stored).collect();
    assert!(
        !chosen(&again, "measured") && found.iter().all(|question| known.contains(question)),
        "{found:?}"
    );
    if kept.len() == asked.len() {
        assert!(chosen(&again, "stored") && found.len() == asked.len(), "{found:?}");
    }
    let text = look(&[]).success();
    assert_eq!(text.contains("  timed "), !found.is_empty(), "{text}");
    assert!(!text.contains("not kept"), "{text}");
}

#[test]
fn measuring_needs_a_model_and_a_place_to_keep_what_it_finds() {
    finish(with_plugins(&["kernels", &model(), "--measure"])).failure(1, &["kept nowhere", "--tune-dir DIR"]);
    finish(with_plugins(&["kernels", "--measure"])).failure(2, &["MODEL"]);
}

#[test]
fn a_step_of_several_sequences_and_the_rows_behind_are_shown_when_asked_for() {
    let report = finish(with_plugins(&["kernels", &model(), "--batch", "3", "--json"])).json();
    let step = &report["segments"][1];
    assert_eq!((&step["segment"], &step["sequences"]), (&"decode step".into(), &3.into()));
    let attention = launches(&report, 1).iter().find(|launch| launch["what"] == "attention blk.0.attention");
    let attention = attention.expect("attention");
    assert_eq!((&attention["problem"]["m"], &attention["problem"]["batch"]), (&3.into(), &3.into()));
    assert!(attention["fill"]["blocks"].as_u64() > Some(0), "{attention}");

    let plain = finish(with_plugins(&["kernels", &model()])).success();
    assert!(!plain.contains("  behind ") && !plain.contains("sequences"), "{plain}");
    let all = finish(with_plugins(&["kernels", &model(), "--batch", "3", "--all"])).success();
    assert!(all.contains("decode step: 3 sequences, "), "{all}");
    let report = finish(with_plugins(&["kernels", &model(), "--json"])).json();
    let sample =
        launches(&report, 0).iter().find(|launch| launch["what"] == "sample logits").expect("the tail");
    let behind = sample["alternatives"].as_array().expect("a list").iter();
    let behind = behind.filter(|arm| arm["ahead"] == false && arm["clause"].is_null());
    let behind: Vec<&str> = behind.filter_map(|arm| arm["row"].as_str()).collect();
    let line = format!(
        "  behind {} at sample logits: {}\n",
        sample["row"].as_str().expect("a name"),
        behind.join(", ")
    );
    assert_eq!(all.contains(&line), !behind.is_empty(), "{line} {all}");
}
