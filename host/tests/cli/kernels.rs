//! `kernels MODEL`: the row of each op, where the choice came from, and the arms that do not serve.

use serde_json::Value;

use crate::program::*;

/// The first projection of the decode step.
fn projection(report: &Value) -> &Value {
    let launches = report["segments"][0]["launches"].as_array().expect("launches");
    let q = |launch: &&Value| launch["what"].as_str().is_some_and(|what| what.ends_with("attn_q"));
    launches.iter().find(q).expect("a projection")
}

#[test]
fn each_choice_has_its_origin_and_its_alternatives() {
    let report = finish(with_plugins(&["kernels", &model(), "--json"])).json();
    let q = projection(&report);
    assert_eq!(q["chosen"], "declared");
    let alternatives = q["alternatives"].as_array().expect("a list");
    let portable = alternatives.iter().find(|arm| arm["row"] == "q4kWaveMatVec");
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

#[test]
fn an_operators_defect_record_takes_a_row_out_and_is_named() {
    let settings = tempfile::tempdir().expect("a folder");
    let defects = settings.path().join("cajeta/defects");
    std::fs::create_dir_all(&defects).expect("made");
    let record = "schema = 1\n[[defect]]\nrow = 'q4kWaveMatVecA*'\nreason = 'answers nonsense'\n";
    std::fs::write(defects.join("nonsense.toml"), record).expect("written");
    let mut command = with_plugins(&["kernels", &model(), "--json"]);
    command.env("XDG_CONFIG_HOME", settings.path());
    let report = finish(command).json();
    let q = projection(&report);
    assert_eq!(q["row"], "q4kWaveMatVec");
    let arms = q["alternatives"].as_array().expect("a list");
    let defective = arms.iter().filter(|arm| arm["gate"] == "a recorded defect: answers nonsense").count();
    let lacking = arms.iter().filter(|arm| arm["clause"] == "unsupported").count();
    assert_eq!(lacking, arms.len(), "{arms:?}");
    let mut command = with_plugins(&["kernels", &model()]);
    command.env("XDG_CONFIG_HOME", settings.path());
    let text = finish(command).success();
    let said = text.matches("unsupported: a recorded defect: answers nonsense").count();
    assert_eq!(said > 0, defective > 0, "{text}");
}

#[test]
fn a_defect_file_that_does_not_read_is_warned_of() {
    let settings = tempfile::tempdir().expect("a folder");
    let defects = settings.path().join("cajeta/defects");
    std::fs::create_dir_all(&defects).expect("made");
    std::fs::write(defects.join("bad.toml"), "schema = 1\n[[defect]]\nrow = 3\n").expect("written");
    let mut command = with_plugins(&["kernels", &model()]);
    command.env("XDG_CONFIG_HOME", settings.path());
    let run = finish(command);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.err.contains("bad.toml") && run.err.contains("none of its defect records"), "{run:?}");
}
