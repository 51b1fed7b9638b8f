//! Models and exact logits that a script wrote from the published definitions, knowing nothing of this workspace's
//! code: `independent/write_models.py`. Whoever reads a file or a definition wrongly here and in [`crate::forward`]
//! alike is found out by these.

use std::path::{Path, PathBuf};

use cajeta::engine::LlmEngine;
use cajeta_model_arch::gguf::GgufFile;
use serde::Deserialize;

use crate::place;
use crate::random_model::Apart;
use crate::reference;

/// Bounds of the mean and the largest distance. Keys and values are kept as f16, and the script's own logits with these
/// rounded are as far from its exact ones: 0.0015 and 0.017 at most, where logits spread by 3.
const MEAN: f64 = 2e-3;
const WORST: f64 = 0.03;
/// Type numbers of metadata in a file.
const U32: u32 = 4;
const F32: u32 = 6;

/// A model and what is known of it, as `cases.json` lists it.
#[derive(Deserialize)]
struct Case {
    name: String,
    texts: Vec<Text>,
    /// Changes of the file, by a factor, that move the logits out of the bounds.
    noticed: Vec<(String, f32)>,
}

/// A text, the positions whose logits were kept, and the context to run it with.
#[derive(Deserialize)]
struct Text {
    ids: Vec<u32>,
    positions: Vec<usize>,
    ctx: u32,
}

/// A file of the script's.
fn written(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("independent").join(name)
}

impl Case {
    /// The exact logits: one row for each kept position of the texts in turn.
    fn exact(&self) -> Vec<f64> {
        let bytes = std::fs::read(written(&format!("{}.logits", self.name))).expect("logits");
        bytes.as_chunks::<4>().0.iter().map(|value| f64::from(f32::from_le_bytes(*value))).collect()
    }

    /// How far the logits of a backend that runs the file are, taking so many rows at once.
    fn apart(&self, file: &Path, backend: &str, rows: usize) -> Apart {
        let exact = self.exact();
        let mut exact = exact.as_slice();
        let mut apart = Apart::default();
        for text in &self.texts {
            let mut options = place::options(file, backend);
            options.ctx = Some(text.ctx);
            let mut engine = LlmEngine::load(&options, &mut |_, _| {})
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let visit = &mut |position: usize, logits: &[f32]| {
                if text.positions.contains(&position) {
                    let (row, rest) = exact.split_at(logits.len());
                    apart.add(logits, row);
                    exact = rest;
                }
            };
            engine.visit_logits(&text.ids, rows, visit).expect("scores");
        }
        assert!(exact.is_empty(), "{}: every kept row is compared", self.name);
        apart
    }
}

/// Every case, from `cases.json`.
fn cases() -> Vec<Case> {
    let cases: Vec<Case> = reference::read(&written("cases.json"));
    assert!(!cases.is_empty(), "cases.json lists none");
    cases
}

/// Holds a backend, many rows at once and single ones, on every model.
///
/// # Panics
/// When logits are further from the exact ones than an f16 cache explains.
pub fn hold(backend: &str) {
    for case in cases() {
        let file = written(&format!("{}.gguf", case.name));
        for rows in [64, 1] {
            let apart = case.apart(&file, backend, rows);
            apart.check(&format!("{} on {backend}, {rows} rows", case.name), MEAN, WORST);
        }
    }
}

/// Changes one number or tensor of a model at a time, each of them what only its architecture has, and asks that the
/// logits leave the bounds.
///
/// # Panics
/// When a change goes unnoticed.
pub fn notice(backend: &str) {
    for case in cases() {
        assert!(!case.noticed.is_empty(), "{}: nothing to notice", case.name);
        for (what, factor) in &case.noticed {
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("changed.gguf");
            std::fs::write(&file, changed(&written(&format!("{}.gguf", case.name)), what, *factor))
                .expect("written");
            let apart = case.apart(&file, backend, 64);
            println!("{}, {what} by {factor}: {apart:?}", case.name);
            assert!(!apart.within(MEAN, WORST), "{}: {what} by {factor} goes unnoticed", case.name);
        }
    }
}

/// The bytes of a model with one F32 tensor or one metadata number multiplied.
fn changed(model: &Path, what: &str, factor: f32) -> Vec<u8> {
    let mut bytes = std::fs::read(model).expect("the model");
    let file = GgufFile::open(model).expect("opens");
    if let Some(tensor) = file.tensor(what) {
        let (from, len) = (tensor.offset as usize, file.data(tensor).len());
        for value in bytes[from..from + len].as_chunks_mut::<4>().0 {
            *value = (f32::from_le_bytes(*value) * factor).to_le_bytes();
        }
        return bytes;
    }
    // A key, its type and its value stand one after the other.
    let key = bytes.windows(what.len()).position(|part| part == what.as_bytes());
    let at = key.unwrap_or_else(|| panic!("{}: no {what}", model.display())) + what.len();
    let [kind, value] = [at, at + 4].map(|at| bytes[at..at + 4].try_into().expect("four bytes"));
    let value = match u32::from_le_bytes(kind) {
        U32 => ((u32::from_le_bytes(value) as f32 * factor).round() as u32).to_le_bytes(),
        F32 => (f32::from_le_bytes(value) * factor).to_le_bytes(),
        kind => panic!("{what} has type {kind}"),
    };
    bytes[at + 4..at + 8].copy_from_slice(&value);
    bytes
}
