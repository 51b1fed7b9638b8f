//! Synthetic models: a GGUF file of any shape and recipe with random weights, the same for the same seed.
//!
//! Speed, memory and kernel behaviour of a model depend on its shapes and formats, not on what it
//! learnt, so a synthetic file stands in for a published one in benchmarks and in tests at full
//! width. It is a complete file: its tokenizer encodes any text, and its logits are finite and spread
//! like a trained model's, so that greedy choices are rarely ties.

pub mod shape;
pub mod mixture;
pub mod recipe;
mod vocabulary;
mod rope_factors;
mod random;
mod blocks;
mod weights;
mod pipeline;
mod metadata;

pub use mixture::Mixture;
pub use recipe::Recipe;
pub use shape::{RopeFactors, Shape};

use crate::config::ARCHITECTURES;
use crate::gguf::writer::{Header, WriteError};
use crate::quant::Format;
use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// What to write.
#[derive(Clone, Debug)]
pub struct SynthOptions {
    /// The architecture; one of [`ARCHITECTURES`].
    pub architecture: String,
    /// Every dimension; [`Shape::named`] knows some.
    pub shape: Shape,
    /// Which format each tensor gets.
    pub recipe: Recipe,
    /// Equal seeds give equal files.
    pub seed: u64,
    /// The context length written into the file, when not the shape's own.
    pub context: Option<u32>,
    /// Threads that make weights; `None` for one per core. The file does not depend on it.
    pub threads: Option<NonZeroUsize>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Bytes of tensor data, without padding.
    pub tensor_bytes: u64,
    /// Number of weights.
    pub parameters: u64,
    /// Tensors whose rows are not whole blocks of the recipe's format, and what they got instead.
    pub fallbacks: Vec<Fallback>,
}

/// A tensor that could not have the recipe's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The tensor.
    pub tensor: String,
    /// The format that the recipe names.
    pub wanted: Format,
    /// The format it has.
    pub got: Format,
}

/// Why no file was written.
#[derive(Debug, thiserror::Error)]
pub enum SynthError {
    /// The architecture is not one that runs here.
    #[error("cannot synthesise architecture {found:?}: expected one of {}", ARCHITECTURES.join(", "))]
    Architecture {
        /// What was asked for.
        found: String,
    },
    /// The dimensions do not make a model.
    #[error("cannot synthesise this shape: {0}")]
    Shape(String),
    /// The file could not be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What failed.
        source: WriteError,
    },
}

/// Writes the model to `path`, replacing what is there once the new file is whole. `progress` hears
/// the bytes of tensor data written so far and in all.
///
/// # Errors
/// When the architecture or shape is refused, or the file cannot be written; nothing is left behind.
pub fn write(
    options: &SynthOptions,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Summary, SynthError> {
    if !ARCHITECTURES.contains(&options.architecture.as_str()) {
        return Err(SynthError::Architecture { found: options.architecture.clone() });
    }
    options.shape.check()?;
    options.recipe.check()?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = write_to(options, &partial, progress);
    let moved = written
        .and_then(|summary| std::fs::rename(&partial, path).map(|()| summary).map_err(WriteError::from));
    moved.map_err(|source| {
        // The failure matters more than whether its remains could be removed.
        let _ = std::fs::remove_file(&partial);
        SynthError::Write { path: path.to_path_buf(), source }
    })
}

fn write_to(
    options: &SynthOptions,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Summary, WriteError> {
    let mut header = Header::new();
    metadata::describe(options, &mut header);
    let mut summary = Summary { tensor_bytes: 0, parameters: 0, fallbacks: Vec::new() };
    let mut fills = Vec::new();
    for tensor in weights::tensors(options) {
        let bytes = header.tensor(&tensor.name, &tensor.dims, tensor.format)?;
        summary.tensor_bytes += bytes;
        summary.parameters += tensor.dims.iter().product::<u64>();
        if let Some(wanted) = tensor.wanted.filter(|&wanted| wanted != tensor.format) {
            summary.fallbacks.push(Fallback { tensor: tensor.name.clone(), wanted, got: tensor.format });
        }
        fills.push(tensor);
    }
    let mut writer = header.begin(File::create(path)?)?;
    let cores = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let threads = options.threads.unwrap_or_else(cores);
    let mut done = 0;
    pipeline::run(&fills, options.seed, threads, &mut |bytes| {
        writer.write(bytes)?;
        done += bytes.len() as u64;
        progress(done, summary.tensor_bytes);
        Ok(())
    })?;
    writer.finish()?;
    Ok(summary)
}

#[cfg(test)]
mod tests;
