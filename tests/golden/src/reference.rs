//! The recorded paths: an established engine's greedy tokens, and exact logits along them.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Top logits of one step.
#[derive(Deserialize, Clone, Debug)]
pub struct Step {
    /// Token ids, best first.
    pub ids: Vec<u32>,
    /// Their logits.
    pub logits: Vec<f64>,
    /// Log-sum-exp of all logits.
    pub lse: f64,
}

/// One greedy path of the established engine.
#[derive(Deserialize, Clone, Debug)]
pub struct GreedyPath {
    /// The prompt.
    pub prompt: String,
    /// Its tokens, special ones parsed, BOS as the model says.
    pub prompt_ids: Vec<u32>,
    /// What the established engine generated.
    pub generated: Vec<u32>,
}

/// A perplexity the established engine computed.
#[derive(Deserialize, Clone, Debug)]
pub struct Perplexity {
    /// Tokens scored.
    pub n_tokens: usize,
    /// Mean negative log-probability.
    pub mean_nll: f64,
}

/// `NAME.greedy.json`.
#[derive(Deserialize, Clone, Debug)]
pub struct Greedy {
    /// Of a text.
    pub perplexity: Perplexity,
    /// The paths.
    pub greedy: Vec<GreedyPath>,
}

/// Exact logits along one path.
#[derive(Deserialize, Clone, Debug)]
pub struct ExactPath {
    /// The prompt.
    pub prompt: String,
    /// Step `i` predicts `generated[i]`.
    pub steps: Vec<Step>,
}

/// The established engine's distance from exact.
#[derive(Deserialize, Clone, Copy, Debug)]
pub struct Summary {
    /// Share of steps where its best token is the exact one.
    pub reference_engine_argmax_agreement: f64,
    /// Its mean |difference of log-probability| over the exact top 8.
    pub reference_engine_mean_abs_dlogprob_top8: f64,
}

/// `NAME.exact.json`.
#[derive(Deserialize, Clone, Debug)]
pub struct Exact {
    /// How far the established engine is.
    pub summary: Summary,
    /// The paths, in the order of the greedy file.
    pub greedy: Vec<ExactPath>,
}

/// Reads a reference file.
pub fn read<T: DeserializeOwned>(path: &Path) -> T {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
