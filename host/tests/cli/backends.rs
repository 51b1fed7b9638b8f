//! `devices`, `backends` and `kernels`: what there is, why, and which kernels serve.

use std::collections::BTreeSet;

use crate::program::{bare, finish, model, plugins, with_plugins};

#[test]
fn devices_come_with_their_facts() {
    let value = finish(with_plugins(&["devices", "--json"])).json();
    let backends = value["backends"].as_array().expect("a list");
    let cpu = backends.iter().find(|backend| backend["backend"] == "cpu").expect("the processor");
    assert_eq!(cpu["chosen"], true);
    let device = &cpu["devices"][0];
    assert!(!device["name"].as_str().expect("a name").is_empty());
    assert!(device["facts"]["memory_total_bytes"].as_u64().expect("bytes") > 0);
    finish(bare(&["devices"])).failure(1, &["backends --explain"]);
}

#[test]
fn backends_are_listed_and_explained() {
    let brief = finish(with_plugins(&["backends"])).success();
    assert!(brief.lines().any(|line| line.starts_with("cpu ") && line.contains("chosen")), "{brief}");
    let value = finish(with_plugins(&["backends", "--explain", "--json"])).json();
    assert_eq!(value["chosen"], "cpu");
    let candidates = value["candidates"].as_array().expect("a list");
    assert!(
        candidates
            .iter()
            .any(|candidate| candidate["id"] == "cpu" && candidate["outcome"]["state"] == "usable")
    );
    let text = finish(with_plugins(&["backends", "--explain"])).success();
    assert!(text.contains("searched:") && text.contains(&plugins().display().to_string()), "{text}");
    // That there is none is an answer too.
    assert!(finish(bare(&["backends"])).success().contains("no backend plugin was found"));
    assert_eq!(finish(bare(&["backends", "--json"])).json()["chosen"], serde_json::Value::Null);
}

#[test]
fn a_built_plugin_is_checked() {
    let manifest = plugins().join("cajeta-backend-cpu.toml").display().to_string();
    let check = ["backends", "check", &manifest, "--cases", "1", "--filter"];
    let value = finish(bare(&[&check[..], &["copy", "--json"]].concat())).json();
    assert_eq!(value["backend"], "cpu");
    let rows = value["rows"].as_array().expect("a list");
    assert!(!rows.is_empty());
    for row in rows {
        assert!(row["row"].as_str().expect("a name").contains("copy"), "{row}");
        assert_ne!(row["outcome"]["is"], "failed", "{row}");
    }
    finish(bare(&[&check[..], &["no such row"]].concat())).failure(1, &["no such row"]);
    finish(bare(&["backends", "check", "/nonexistent"])).failure(1, &["/nonexistent"]);
    finish(bare(&["backends", "check", &model()])).failure(1, &["refused at stage"]);
}

#[test]
fn the_rows_that_serve_a_model_are_rows_of_the_backend() {
    let registry = finish(with_plugins(&["kernels", "--json"])).json();
    let rows = registry["rows"].as_array().expect("a list");
    let names: BTreeSet<&str> = rows.iter().map(|row| row["name"].as_str().expect("a name")).collect();
    assert_eq!(names.len(), rows.len());

    let value = finish(with_plugins(&["kernels", &model(), "--rows", "32", "--json"])).json();
    let segments = value["segments"].as_array().expect("a list");
    let of: Vec<&str> = segments.iter().map(|segment| segment["segment"].as_str().expect("a name")).collect();
    assert_eq!(of, ["decode step", "prefill chunk", "prefill tail"]);
    for segment in segments {
        let launches = segment["launches"].as_array().expect("a list");
        assert!(!launches.is_empty());
        for launch in launches {
            assert!(names.contains(launch["row"].as_str().expect("a name")), "{launch}");
        }
    }
    assert_eq!(segments[1]["rows"], 32);
    let text = finish(with_plugins(&["kernels", &model()])).success();
    assert!(text.contains("decode step: 1 row") && text.contains("blk.*"), "{text}");
    assert!(finish(with_plugins(&["kernels"])).success().lines().count() > names.len());
    finish(with_plugins(&["kernels", &model(), "--ctx", "99999"])).failure(1, &["99999", "1024"]);
}
