//! `inspect`: what the tiny model holds, and files that cannot run here.

use std::path::Path;

use cajeta_catalog::quant::Format;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::gguf::writer::Header;

use crate::program::{bare, finish, ids, keys, model, on_reference, with_plugins};

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

#[test]
fn tensors_are_told_by_what_they_are_for() {
    let value = finish(bare(&["inspect", &model(), "--json"])).json();
    let classes = value["classes"].as_array().expect("a list");
    let names: Vec<&str> = classes.iter().map(|class| class["class"].as_str().expect("a name")).collect();
    assert_eq!(names, ["embedding", "attention", "feed-forward", "norms", "output head"]);
    let sum = |key: &str| classes.iter().map(|class| class[key].as_u64().expect("a number")).sum::<u64>();
    assert_eq!((sum("tensors"), sum("parameters")), (39, 5_245_184));
    assert_eq!(sum("bytes"), value["memory"]["weight_bytes"]);
    assert_eq!(value["vocabulary"]["model"], "gpt2");
    assert_eq!(value["vocabulary"]["pre"], "llama-bpe");
    // The tiny model's template knows users and assistants alone.
    assert_eq!(value["template"]["system"], false);
    let text = finish(bare(&["inspect", &model()])).success();
    for part in ["5.2M", "llama-bpe", "takes no instructions", "14 x Q4_K, 2 x Q6_K", "at context 1024"] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let run = finish(with_plugins(&["run", &model(), "-p", "x", "--system", "y", "-n", "1"]));
    assert!(run.code == Some(0) && run.err.contains("leaves instructions out"), "{run:?}");
}

#[test]
fn the_template_can_be_read() {
    let template = finish(bare(&["inspect", &model(), "--template"])).success();
    assert!(
        template.starts_with("{{ bos_token }}") && template.contains("add_generation_prompt"),
        "{template}"
    );
    finish(bare(&["inspect", &model(), "--template", "--json"])).failure(2, &["cannot be used with"]);
}

#[test]
fn what_it_takes_is_what_the_engine_says() {
    let args = ["inspect", &model(), "--json", "--ctx", "512", "--chunk", "64"];
    let runs = finish(on_reference(&args, &[])).json()["runs"].clone();
    let needs = &runs["needs"];
    let sum: u64 = ["weight_bytes", "kv_bytes", "work_bytes"]
        .iter()
        .map(|part| needs[part].as_u64().expect("bytes"))
        .sum();
    assert_eq!(runs["device_bytes"], sum);
    assert_eq!((runs["yes"].as_bool(), needs["context"].as_u64()), (Some(true), Some(512)));
    // A device with too little memory is refused by both, in the same words.
    let small = [("CAJETA_REFERENCE_MEMORY_MB", "3")];
    refused_alike(&small, "device memory");
    refused_alike(&[("CAJETA_REFERENCE_LARGEST_BINDING", "100000")], "token_embd.weight");
}

/// Inspection and a run refuse the tiny model with the same sentence, which holds `part`.
fn refused_alike(variables: &[(&str, &str)], part: &str) {
    let model = model();
    let value = finish(on_reference(&["inspect", &model, "--json"], variables)).json();
    let reason = value["runs"]["reasons"][0].as_str().expect("a reason").to_owned();
    assert!(value["runs"]["yes"] == false && reason.contains(part), "{value}");
    finish(on_reference(&["run", &model, "-p", "x"], variables)).failure(1, &[&reason]);
}

#[test]
fn a_context_beyond_the_trained_one_is_told() {
    let text = finish(with_plugins(&["inspect", &model(), "--ctx", "4000"])).success();
    assert!(text.contains("runs here     no") && text.contains("from 1 to 1024"), "{text}");
}

/// The tiny model with one tensor in another format, all zeros.
fn with_format(path: &Path, tensor: &str, format: Format) {
    let model = model();
    let file = GgufFile::open(Path::new(&model)).expect("the tiny model");
    let mut header = Header::new();
    for (key, value) in file.metadata().iter() {
        header.set(key, value.clone());
    }
    let mut bytes = 0;
    for info in file.tensors() {
        let format = if info.name == tensor { format } else { info.format };
        bytes += header.tensor(&info.name, &info.dims, format).expect("a size");
    }
    let mut writer = header.begin(std::fs::File::create(path).expect("created")).expect("begun");
    writer.write(&vec![0; bytes as usize]).expect("written");
    writer.finish().expect("whole");
}

#[test]
fn a_format_without_kernels_is_told_by_tensor_and_format() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("odd.gguf");
    with_format(&path, "blk.2.ffn_up.weight", Format::from_name("IQ2_XXS").expect("a format"));
    let path = path.display().to_string();
    let value = finish(with_plugins(&["inspect", &path, "--json"])).json();
    let reason = value["runs"]["reasons"][0].as_str().expect("a reason").to_owned();
    assert!(value["runs"]["yes"] == false && reason.contains("IQ2_XXS"), "{reason}");
    let text = finish(with_plugins(&["inspect", &path])).success();
    assert!(text.contains("1 x IQ2_XXS"), "{text}");
    let run = finish(with_plugins(&["run", &path, "-p", "x"]));
    assert!(run.code == Some(1) && run.err.contains("IQ2_XXS"), "{run:?}");
}
