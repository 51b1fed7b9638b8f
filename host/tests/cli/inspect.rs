//! `inspect`: what the tiny model holds, and files that cannot run here.

use cajeta_model_arch::gguf::writer::Header;

use crate::program::{bare, finish, ids, keys, model, with_plugins};

#[test]
fn the_tiny_model_in_json() {
    let value = finish(with_plugins(&["inspect", &model(), "--json"])).json();
    assert_eq!(value["architecture"], "llama");
    assert_eq!(value["name"], "tales-5m");
    assert_eq!(value["parameters"], 5_245_184);
    assert_eq!(value["shape"]["context"], 1024);
    assert_eq!(value["shape"]["kv_heads"], 2);
    assert_eq!(value["vocabulary"]["bos"]["id"], 4092);
    assert_eq!(value["vocabulary"]["end"][0]["text"], "<|end_of_text|>");
    assert_eq!(value["vocabulary"]["add_bos"], true);
    assert_eq!(value["chat_template"], true);
    // Two planes of two heads of 64 halves, in four layers.
    assert_eq!(value["memory"]["kv_bytes_per_1k_tokens"], 1024 * 2 * 2 * 64 * 2 * 4);
    assert_eq!(value["runs"]["yes"], true, "{}", value["runs"]);
    assert_eq!(value["runs"]["backend"], "cpu");
    assert!(!keys(&value).contains(&"tensors"));
    let formats = value["formats"].as_array().expect("a list");
    let counts: u64 = formats.iter().map(|format| format["tensors"].as_u64().expect("a count")).sum();
    assert_eq!(counts, 39);
    let names: Vec<&str> = formats.iter().map(|format| format["format"].as_str().expect("a name")).collect();
    assert_eq!(names, ["Q4_K", "Q6_K", "F32"]);
}

#[test]
fn tensors_are_listed_when_asked() {
    let value = finish(bare(&["inspect", &model(), "--json", "--tensors"])).json();
    let tensors = value["tensors"].as_array().expect("a list");
    assert_eq!(tensors.len(), 39);
    let table = tensors.iter().find(|tensor| tensor["name"] == "token_embd.weight").expect("the embedding");
    assert_eq!(ids(&table["dims"]), [256, 4096]);
    let text = finish(bare(&["inspect", &model(), "--tensors", "--metadata"])).success();
    assert!(text.contains("token_embd.weight") && text.contains("256 x 4096"), "{text}");
    assert!(text.contains("llama.context_length"), "{text}");
}

#[test]
fn without_a_backend_the_reason_is_the_answer() {
    let value = finish(bare(&["inspect", &model(), "--json"])).json();
    assert_eq!(value["runs"]["yes"], false);
    let reason = value["runs"]["reasons"][0].as_str().expect("a reason");
    assert!(reason.contains("no backend"), "{reason}");
    let text = finish(bare(&["inspect", &model()])).success();
    assert!(text.contains("runs here") && text.contains("no-plugins"), "{text}");
}

#[test]
fn a_model_of_an_unknown_kind_is_inspected_and_does_not_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mystery.gguf");
    let mut header = Header::new();
    header.set("general.architecture", "mystery");
    let file = std::fs::File::create(&path).expect("created");
    header.begin(file).and_then(|writer| writer.finish()).expect("written");
    let path = path.display().to_string();
    let value = finish(bare(&["inspect", &path, "--json"])).json();
    assert_eq!(value["architecture"], "mystery");
    let reasons = value["runs"]["reasons"].to_string();
    assert!(value["runs"]["yes"] == false && reasons.contains("unknown architecture"), "{reasons}");
    finish(with_plugins(&["run", &path, "-p", "x"])).failure(1, &["unknown architecture", "mystery"]);
}
