//! What a caller may choose about an engine, and about one generation.

use std::path::PathBuf;

use cajeta_catalog::state::SampleParams;
use cajeta_plugin_host::SelectOptions;

use super::error::EngineError;

/// Context used when the caller names none and the model was trained for more.
pub const DEFAULT_CONTEXT: u32 = 8192;
/// Rows of a prefill chunk.
pub const DEFAULT_CHUNK: u32 = 512;

/// How to load a model.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The GGUF file.
    pub model: PathBuf,
    /// Positions the K/V cache holds; the model's trained context, at most [`DEFAULT_CONTEXT`], if absent.
    pub ctx: Option<u32>,
    /// Most rows of one prefill step.
    pub chunk: u32,
    /// Most sequences decoded at once; the cache holds `ctx` positions of each.
    pub max_seqs: u32,
    /// Queue a chunk while the one before is computed, and a decode step before the tokens of the one
    /// before are looked at. Changes no result. If absent, where the device works without the host:
    /// elsewhere it gains nothing, and a step that follows the last token is thrown away.
    pub pipelined: Option<bool>,
    /// Which backends may serve.
    pub select: SelectOptions,
    /// Fill fresh device memory with NaN, so that a kernel reading what nothing wrote shows.
    pub poison: bool,
    /// Where measured choices are kept; `off` measures nothing. If absent, where the process keeps them
    /// (see [`tune_directory`](crate::tune::store::tune_directory)).
    pub tune_dir: Option<PathBuf>,
    /// Most bytes of widened copies of weights, for formats where prefill is faster over those; 0 makes
    /// none and asks about none. If absent, what weights, cache and work leave free, at most a quarter of
    /// the free memory.
    pub widen_budget: Option<u64>,
    /// Measure all that is asked and not known, however long that takes and however busy the device is.
    pub measure_all: bool,
    /// Choices that are fixed, a family's row or a question's answer by name: see
    /// [`overrides`](crate::tune::overrides). They win over those of the environment.
    pub overrides: Vec<(String, String)>,
    /// Run a throwaway prefill and decode while loading, so that the first request is as fast as others.
    pub warm_up: bool,
}

impl EngineOptions {
    /// The defaults for a model. Memory is poisoned in builds with debug assertions.
    pub fn new(model: impl Into<PathBuf>, select: SelectOptions) -> EngineOptions {
        EngineOptions {
            model: model.into(),
            ctx: None,
            chunk: DEFAULT_CHUNK,
            max_seqs: 1,
            pipelined: None,
            select,
            poison: cfg!(debug_assertions),
            tune_dir: None,
            widen_budget: None,
            measure_all: false,
            overrides: Vec::new(),
            warm_up: true,
        }
    }
}

/// How tokens are drawn. Names and defaults are the field's.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampling {
    /// Divides the logits; 0 takes the likeliest token always.
    pub temperature: f32,
    /// Keep this many of the likeliest; 0 keeps as many as the device looks at.
    pub top_k: u32,
    /// Keep the fewest whose probabilities reach this sum.
    pub top_p: f32,
    /// Drop those less likely than this times the likeliest.
    pub min_p: f32,
    /// Same seed, same prompt, same text.
    pub seed: u64,
}

impl Default for Sampling {
    fn default() -> Sampling {
        Sampling { temperature: 0.8, top_k: 40, top_p: 0.95, min_p: 0.05, seed: 0 }
    }
}

impl Sampling {
    /// The likeliest token, always.
    pub const GREEDY: Sampling = Sampling { temperature: 0.0, top_k: 0, top_p: 1.0, min_p: 0.0, seed: 0 };

    /// The parameters as the step state holds them.
    ///
    /// # Errors
    /// When a value is not a number or out of range.
    pub fn params(&self) -> Result<SampleParams, EngineError> {
        let check = |name, value: f32, holds: bool, range| {
            if holds { Ok(()) } else { Err(EngineError::Sampling { name, value, range }) }
        };
        let finite = self.temperature.is_finite() && self.temperature >= 0.0;
        check("--temp", self.temperature, finite, "a number from 0 up")?;
        check("--top-p", self.top_p, self.top_p > 0.0 && self.top_p <= 1.0, "above 0 and at most 1")?;
        check("--min-p", self.min_p, self.min_p >= 0.0 && self.min_p <= 1.0, "from 0 to 1")?;
        Ok(SampleParams {
            temperature: self.temperature,
            top_p: self.top_p,
            min_p: self.min_p,
            top_k: self.top_k,
            seed_lo: self.seed as u32,
            seed_hi: (self.seed >> 32) as u32,
            counter: 0,
            reserved: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_none_are_refused() {
        for bad in [f32::NAN, f32::INFINITY, -1.0] {
            assert!(Sampling { temperature: bad, ..Sampling::default() }.params().is_err());
            assert!(Sampling { top_p: bad, ..Sampling::default() }.params().is_err());
            assert!(Sampling { min_p: bad, ..Sampling::default() }.params().is_err());
        }
        assert!(Sampling::default().params().is_ok() && Sampling::GREEDY.params().is_ok());
    }
}
