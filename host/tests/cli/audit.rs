//! `audit`: rows against every op and format, and against a model's ops, with no device asked.

use crate::program::*;

#[test]
fn every_op_is_asked_in_every_format() {
    let value = finish(with_plugins(&["audit", "--json"])).json();
    assert_eq!(keys(&value), ["model", "backends"]);
    let backends = value["backends"].as_array().expect("a list");
    assert_eq!(backends.len(), 1, "the variable names one");
    let cpu = &backends[0];
    assert_eq!((&cpu["backend"], &cpu["unread"]), (&"cpu".into(), &serde_json::Value::Null));
    assert_eq!(cpu["missing"], serde_json::json!([]), "the processor serves every op in every format");
    let table = |op: &str| {
        let tables = cpu["tables"].as_array().expect("a list");
        tables.iter().find(|table| table["op"] == op).unwrap_or_else(|| panic!("no {op}"))
    };
    let matmul = table("matmul");
    let (rows, queries) =
        (matmul["rows"].as_array().expect("rows"), matmul["queries"].as_array().expect("queries"));
    for query in queries {
        let clauses = query["clauses"].as_str().expect("text");
        assert_eq!(clauses.len(), rows.len(), "one letter a row");
        let serves = clauses.chars().filter(|letter| *letter == '.').count();
        assert_eq!(query["serves"], serves);
        assert_eq!(query["shadowed"], serves > 1);
    }
    let q4k = rows.iter().find(|row| row["row"] == "q4kWaveMatVecAvx2").expect("a row of Q4_K");
    assert_eq!(q4k["needs"].as_array().expect("a list").len(), 1, "declared, whatever this machine has");
    assert!(q4k["own_fires"].as_u64() < q4k["own_asked"].as_u64() && q4k["own_fires"].as_u64() > Some(0));
    assert_eq!(matmul["never"], serde_json::json!([]));
}

#[test]
fn a_models_ops_are_asked_once_each() {
    let value = finish(with_plugins(&["audit", &model(), "--json"])).json();
    let cpu = &value["backends"][0];
    assert_eq!(cpu["missing"], serde_json::json!([]));
    let tables = cpu["tables"].as_array().expect("a list");
    let matmul = tables.iter().find(|table| table["op"] == "matmul").expect("projections");
    let asked: Vec<&str> = matmul["queries"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|query| query["query"].as_str())
        .collect();
    assert!(asked.iter().any(|query| query.contains("Q4_K") && query.contains("decode-row")), "{asked:?}");
    assert!(asked.iter().any(|query| query.contains("Q6_K") && query.contains("prefill-batch")), "{asked:?}");
    let never = matmul["never"].as_array().expect("a list");
    assert!(never.iter().any(|row| row == "q2kWaveMatVec"), "the model has no Q2_K");
    let text = finish(with_plugins(&["audit", &model()])).success();
    let never =
        text.lines().find(|line| line.starts_with("  never: matmul: ")).expect("rows of other formats");
    assert!(never.split([' ', ',']).any(|row| row == "q2kWaveMatVec"), "{never}");
    assert!(text.contains("questions"), "{text}");
}

#[test]
fn what_only_a_gate_turns_away_is_said_in_text_too() {
    let value = finish(with_plugins(&["audit", "--json"])).json();
    let cpu = &value["backends"][0];
    let gated = cpu["gated"].as_array().expect("a list");
    let of = |op: &str, gate: &str| gated.iter().find(|gated| gated["op"] == op && gated["gate"] == gate);
    let matmul = of("matmul", "K % 256").expect("blocks of 256");
    let formats = matmul["formats"].as_array().expect("a list");
    assert!(formats.iter().any(|format| format == "Q4_K"), "{matmul}");
    // Every question that no row serves is missing at any size, or turned away by one gate.
    let unserved = |table: &serde_json::Value| {
        let queries = table["queries"].as_array().expect("a list");
        queries.iter().filter(|query| query["serves"] == 0).count() as u64
    };
    let unserved: u64 = cpu["tables"].as_array().expect("a list").iter().map(unserved).sum();
    let counted: u64 = gated.iter().filter_map(|gated| gated["questions"].as_u64()).sum();
    assert_eq!(unserved, counted, "nothing is missing on the processor");
    let text = finish(with_plugins(&["audit"])).success();
    let line = text.lines().find(|line| line.starts_with("  gate: matmul K % 256: ")).expect("a line");
    assert!(line.contains("Q4_K") && line.contains("at N 7 K 7; "), "{line}");
    assert!(text.lines().any(|line| line.starts_with("  always: add: ")), "{text}");
}

#[test]
fn no_plugin_is_an_error_that_says_where_to_look() {
    finish(bare(&["audit"])).failure(1, &["no plugin is installed", "backends --explain"]);
    finish(with_plugins(&["audit", "nowhere.gguf"])).failure(1, &["nowhere.gguf"]);
}

#[test]
fn a_plugin_that_is_not_there_is_named_and_no_device_is_asked_for() {
    finish(with_plugins(&["audit", "--backend", "nope"])).failure(1, &["no plugin `nope` is installed"]);
    let mut command = with_plugins(&["audit"]);
    command.env("CAJETA_XPU_BACKEND", "nope,never");
    finish(command).failure(1, &["CAJETA_XPU_BACKEND=nope,never"]);
    finish(with_plugins(&["audit", "--device", "99"])).failure(2, &["--device"]);
}

#[test]
fn a_plugin_whose_rows_cannot_be_read_is_a_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = folder.path().join("cajeta-backend-cpu.toml");
    std::fs::copy(plugins().join("cajeta-backend-cpu.toml"), &manifest).expect("copied");
    std::fs::write(folder.path().join("libcajeta_backend_cpu.so"), "no library").expect("written");
    for args in [&["audit"][..], &["audit", "--json"]] {
        let mut command = with_plugins(args);
        command.env("CAJETA_PLUGIN_PATH", folder.path());
        let run = finish(command);
        assert!(run.out.contains("cpu"), "what is known is printed: {run:?}");
        run.failure(1, &["not audited", "cpu"]);
    }
}
