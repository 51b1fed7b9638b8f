//! `bench`: every combination is timed, in a table and as JSON, and what cannot be timed is refused.

use serde_json::Value;

use crate::program::{bare, finish, keys, model, with_plugins};

fn bench(args: &[&str]) -> Value {
    let model = model();
    finish(with_plugins(&[&["bench", &model, "--json", "-r", "2"], args].concat())).json()
}

fn tests(value: &Value) -> &Vec<Value> {
    value["tests"].as_array().expect("a list")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn every_combination_is_timed_once() {
    let value = bench(&["-p", "8,0", "-n", "5", "-b", "1,3", "-d", "0,20"]);
    let all = ["model", "backend", "device", "load_ms", "bandwidth", "tests"];
    assert_eq!(keys(&value), all);
    let names: Vec<&str> = tests(&value).iter().map(|test| test["test"].as_str().expect("a name")).collect();
    assert_eq!(names, ["pp8", "tg5", "tg5@b3", "pp8@d20", "tg5@d20", "tg5@b3@d20"]);
    for test in tests(&value) {
        let rates: Vec<f64> = test["repetitions"].as_array().expect("a list").iter().map(number).collect();
        let [median, slowest, fastest] =
            ["tokens_per_second", "slowest", "fastest"].map(|key| number(&test[key]));
        assert_eq!(rates.len(), 2, "{test}");
        assert!(slowest > 0.0 && slowest <= median && median <= fastest, "{test}");
        assert!(rates.contains(&median), "{test}");
        assert_eq!(test["fill"], if test["depth"] == 0 { Value::Null } else { "prefill".into() });
        assert!(test.get("spans").is_none(), "{test}");
    }
    let [one, many, deep] = [1, 2, 4].map(|index| tests(&value)[index]["step"].clone());
    let of = |step: &Value, key: &str| number(&step[key]);
    assert!(of(&one, "wall_ms") > 0.0 && of(&one, "host_submit_us") > 0.0, "{one}");
    // Weights are read once for all sequences, but for a row of the embedding each; caches are their own.
    let weights = of(&many, "weight_bytes") - of(&one, "weight_bytes");
    assert!(weights > 0.0 && weights < 0.01 * of(&one, "weight_bytes"), "{one} {many}");
    assert_eq!(of(&many, "cache_bytes"), 3.0 * of(&one, "cache_bytes"));
    assert!(of(&deep, "cache_bytes") > 5.0 * of(&one, "cache_bytes"), "{one} {deep}");
}

#[test]
fn spans_name_the_kernels_of_a_step() {
    let value = bench(&["-p", "16", "-n", "4", "-d", "30", "-b", "2", "--fill", "noise", "--spans"]);
    for test in tests(&value) {
        assert_eq!(test["fill"], "noise");
        let spans = &test["spans"];
        let groups = spans["groups"].as_array().expect("a list");
        let sum: f64 = groups.iter().map(|group| number(&group["total_us"])).sum();
        assert!(sum > 0.0 && (sum - number(&spans["total_us"])).abs() < 1e-3 * sum, "{spans}");
        let attention = groups.iter().find(|group| group["computes"] == "attention blk.*.attention");
        let attention = attention.unwrap_or_else(|| panic!("no attention: {spans}"));
        assert!(number(&attention["bytes"]) > 0.0 && number(&attention["launches"]) == 4.0, "{attention}");
        let by_row = spans["rows"].as_array().expect("a list");
        assert!(by_row.len() <= groups.len() && !by_row.is_empty(), "{spans}");
    }
}

#[test]
fn the_table_has_a_line_a_test() {
    let model = model();
    let out = finish(with_plugins(&[
        "bench", &model, "-p", "4", "-n", "3", "-r", "1", "-d", "5000", "--fill", "noise",
    ]));
    out.failure(1, &["5004", "1024"]);
    let out = finish(with_plugins(&[
        "bench", &model, "-p", "4", "-n", "3", "-r", "1", "-b", "2", "-d", "600", "--fill", "noise",
    ]));
    let out = out.success();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 4, "{out}");
    assert!(lines[0].contains("on cpu: ") && lines[1].starts_with("test "), "{out}");
    assert!(lines[2].starts_with("pp4@d600 (noise)") && lines[3].starts_with("tg3@b2@d600 (noise)"), "{out}");
    assert!(lines.iter().all(|line| !line.ends_with(' ')), "{out}");
}

#[test]
fn what_cannot_be_timed_is_refused() {
    let model = model();
    let refused = |args: &[&str], code, parts: &[&str]| {
        finish(with_plugins(&[&["bench", &model], args].concat())).failure(code, parts);
    };
    refused(&["-p", "0", "-n", "0"], 2, &["nothing to time"]);
    refused(&["-b", "0"], 2, &["0"]);
    refused(&["-n", "x"], 2, &["x"]);
    refused(&["-p", "2000"], 1, &["2000", "1024"]);
    refused(&["-p", "0", "-n", "4", "-b", "200"], 1, &["M <= 64"]);
}

#[test]
fn a_cache_that_does_not_fit_is_refused_with_its_size() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("deep.gguf").display().to_string();
    let shape = ["--layers", "64", "--width", "128", "--heads", "2", "--kv-heads", "2", "--ff", "256"];
    finish(bare(&[&["synth", &path, "--quant", "q8_0", "--ctx", "4000000"], &shape[..]].concat())).success();
    let args = ["bench", &path, "-p", "0", "-n", "16", "-b", "64", "-d", "3000000"];
    finish(with_plugins(&args))
        .failure(1, &["K/V cache of 64 sequences at context 3000016", "fewer sequences"]);
}
