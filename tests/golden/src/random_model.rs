//! A random model written for one test, and the distance of an engine's logits from its exact ones.

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

use cajeta::engine::LlmEngine;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::synth::{self, Recipe, Shape, SynthOptions};
use tempfile::TempDir;

use crate::forward::Forward;
use crate::place;

/// The file, which goes when this does.
pub struct RandomModel {
    architecture: &'static str,
    shape: Shape,
    path: PathBuf,
    _folder: TempDir,
}

/// How far logits are from exact ones.
#[derive(Clone, Copy, Default, Debug)]
pub struct Apart {
    worst: f64,
    sum: f64,
    /// Logits compared.
    pub seen: usize,
}

impl Apart {
    /// Compares one row of logits.
    pub fn add(&mut self, got: &[f32], exact: &[f64]) {
        for (got, exact) in got.iter().zip(exact) {
            let off = (f64::from(*got) - exact).abs();
            self.worst = self.worst.max(if off.is_nan() { f64::INFINITY } else { off });
            self.sum += off;
            self.seen += 1;
        }
    }

    /// Prints the distance and holds it to its bounds.
    ///
    /// # Panics
    /// When it is larger.
    pub fn check(&self, what: &str, mean_bound: f64, worst_bound: f64) {
        let (worst, mean) = (self.worst, self.mean());
        println!("{what}: mean {mean:.6}, worst {worst:.5} of {} logits", self.seen);
        assert!(self.within(mean_bound, worst_bound), "{what}: mean {mean}, worst {worst}");
    }

    /// Whether the mean and the largest distance are below these.
    pub fn within(&self, mean_bound: f64, worst_bound: f64) -> bool {
        self.mean() < mean_bound && self.worst < worst_bound
    }

    fn mean(&self) -> f64 {
        self.sum / self.seen.max(1) as f64
    }
}

impl RandomModel {
    /// Writes the model.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(architecture: &'static str, shape: &Shape, recipe: Recipe) -> RandomModel {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("model.gguf");
        let options = SynthOptions {
            architecture: architecture.into(),
            shape: shape.clone(),
            recipe,
            seed: 7,
            context: None,
            threads: None,
        };
        synth::write(&options, &path, &mut |_, _| {}).expect("written");
        RandomModel { architecture, shape: shape.clone(), path, _folder: folder }
    }

    /// Multiplies every value of an F32 tensor.
    ///
    /// # Panics
    /// When there is no such tensor or the file cannot be changed.
    pub fn scale(&self, name: &str, factor: f32) {
        let (offset, bytes) = {
            let file = GgufFile::open(&self.path).expect("opens");
            let tensor = file.tensor(name).unwrap_or_else(|| panic!("no tensor {name}"));
            let values = file.data(tensor).as_chunks::<4>().0.iter();
            let scaled = values.flat_map(|value| (f32::from_le_bytes(*value) * factor).to_le_bytes());
            (tensor.offset, scaled.collect::<Vec<u8>>())
        };
        let mut file = OpenOptions::new().write(true).open(&self.path).expect("opens for writing");
        file.seek(SeekFrom::Start(offset)).expect("seeks");
        file.write_all(&bytes).expect("writes");
    }

    /// Exact logits after the tokens at these positions, for an engine with this context.
    pub fn exact(&self, ctx: u32, ids: &[u32], positions: &[usize]) -> Vec<Vec<f64>> {
        let file = GgufFile::open(&self.path).expect("opens");
        Forward { file: &file, architecture: self.architecture, shape: &self.shape, ctx }
            .logits_at(ids, positions)
    }

    /// An engine that takes one backend, with this context.
    ///
    /// # Panics
    /// When it does not load.
    pub fn engine(&self, backend: &str, ctx: u32) -> LlmEngine {
        let mut options = place::options(&self.path, backend);
        options.ctx = Some(ctx);
        LlmEngine::load(&options, &mut |_, _| {}).expect("loads")
    }
}
