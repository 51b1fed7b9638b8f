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
    assert!(text.contains("never: matmul q2kWaveMatVec\n") && text.contains("questions"), "{text}");
}

#[test]
fn no_plugin_is_an_error_that_says_where_to_look() {
    finish(bare(&["audit"])).failure(1, &["no such plugin", "backends --explain"]);
    finish(with_plugins(&["audit", "nowhere.gguf"])).failure(1, &["nowhere.gguf"]);
}
