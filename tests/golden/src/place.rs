//! Where reference data, models and plugins are found by tests.

use std::path::{Path, PathBuf};

use cajeta::engine::EngineOptions;
use cajeta_plugin_host::{SearchOptions, SelectOptions};

/// The workspace root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The folder of shared data, where there is one.
fn shared() -> PathBuf {
    std::env::var_os("CAJETA_SHARED").map_or_else(|| root().join("../shared"), PathBuf::from)
}

/// A reference file: from the repository, else from the shared data.
pub fn reference(name: &str) -> Option<PathBuf> {
    first([root().join("tests/data/reference").join(name), shared().join("reference").join(name)])
}

/// A model by its reference name.
pub fn model(name: &str) -> Option<PathBuf> {
    if name == "smollm2-135m-q4_1" {
        let fetched = root().join("target/models/SmolLM2-135M-Instruct.Q4_1.gguf");
        let named = std::env::var_os("CAJETA_SMOLLM2").map(PathBuf::from);
        return first([named.unwrap_or(fetched)]);
    }
    if name == "gemma3-270m-q4_k_m" {
        let fetched = root().join("target/models/gemma3-270m-q4_k_m.gguf");
        let named = std::env::var_os("CAJETA_GEMMA3").map(PathBuf::from);
        return first([named.unwrap_or(fetched)]);
    }
    let file = format!("{name}.gguf");
    first([root().join("tests/data").join(&file), shared().join("models").join(&file)])
}

fn first<const N: usize>(paths: [PathBuf; N]) -> Option<PathBuf> {
    paths.into_iter().find(|path| path.is_file())
}

/// Engine options that take exactly one backend, from the folder this test was built into.
pub fn options(model: &Path, backend: &str) -> EngineOptions {
    let exe = std::env::current_exe().expect("a test knows its executable");
    // target/<profile>/deps/<test>
    let built = exe.parent().and_then(Path::parent).expect("a test is two folders deep").to_path_buf();
    let mut select = SelectOptions::of_process(Vec::new());
    select.search = SearchOptions::only(&[&built]);
    select.probe.program = Some(built.join("cajeta-probe"));
    select.force = Some(backend.into());
    let mut options = EngineOptions::new(model, select);
    // Which kernels serve does not hang on the clock, and what nothing wrote stays poisoned.
    options.tune_dir = Some("off".into());
    options.warm_up = false;
    options
}
