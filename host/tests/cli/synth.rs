//! `synth`: files of a wanted shape, the same for the same seed, never over another by accident.

use crate::program::{bare, finish, with_plugins};

#[test]
fn a_synthetic_model_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = bare(&["synth", "--shape", "tiny", "--quant", "Q4_K_M", "--json"]);
    command.current_dir(folder.path());
    let value = finish(command).json();
    assert_eq!(value["path"], "tiny-q4_k_m.gguf");
    let path = folder.path().join("tiny-q4_k_m.gguf");
    assert_eq!(value["bytes"], std::fs::metadata(&path).expect("the file").len());
    let path = path.display().to_string();
    let answer = finish(with_plugins(&["run", &path, "-p", "hi", "-n", "3", "--temp", "0", "--json"])).json();
    assert_eq!(answer["generated_ids"].as_array().expect("a list").len(), 3);
}

#[test]
fn equal_seeds_give_equal_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, seed: &str| {
        let path = folder.path().join(name).display().to_string();
        finish(bare(&["synth", &path, "--seed", seed, "--layers", "1", "--quant", "f16"])).success();
        std::fs::read(path).expect("the file")
    };
    assert!(write("a", "1") == write("b", "1"), "one seed, two files");
    assert!(write("c", "2") != write("d", "1"), "two seeds, one file");
}

#[test]
fn dimensions_replace_those_of_the_shape() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("wide.gguf").display().to_string();
    let dims =
        ["--layers", "3", "--width", "128", "--heads", "2", "--kv-heads", "1", "--ff", "256", "--ctx", "64"];
    finish(bare(&[&["synth", &path, "--quant", "q8_0"], &dims[..]].concat())).success();
    let shape = finish(bare(&["inspect", &path, "--json"])).json()["shape"].clone();
    for (key, value) in
        [("layers", 3), ("width", 128), ("heads", 2), ("kv_heads", 1), ("feed_forward", 256), ("context", 64)]
    {
        assert_eq!(shape[key], value, "{key}");
    }
}

#[test]
fn a_file_is_replaced_only_when_asked() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.gguf");
    std::fs::write(&path, "precious").expect("written");
    let name = path.display().to_string();
    finish(bare(&["synth", &name])).failure(1, &[&name, "--force"]);
    assert_eq!(std::fs::read(&path).expect("still there"), b"precious");
    finish(bare(&["synth", &name, "--force"])).success();
    assert!(std::fs::read(&path).expect("the model").starts_with(b"GGUF"));
    let here = folder.path().display().to_string();
    finish(bare(&["synth", &here, "--force"])).failure(1, &["folder"]);
    finish(bare(&["synth", "/nonexistent/m.gguf"])).failure(1, &["/nonexistent/m.gguf"]);
    finish(bare(&["synth", &folder.path().join("n").display().to_string(), "--heads", "3"]))
        .failure(1, &["3 heads"]);
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "nothing half-written is left: {left:?}");
}
