//! `sample`: draws one token per row. This is the normative algorithm; a host
//! draw is [`choose`], and every device draw is held against it.
//!
//! 1. The candidates are the `top_k` largest logits, at most 256 (also for
//!    `top_k` 0), by logit downwards, then index upwards. NaN is never one.
//! 2. Their probabilities are the softmax over the candidates, untempered.
//! 3. `top_p` below 1 keeps the fewest leading candidates whose probabilities
//!    sum to at least `top_p`; always the first.
//! 4. `min_p` above 0 drops candidates less likely than `min_p` times the first.
//! 5. What is left is weighted by `exp((logit - largest) / temperature)`; with
//!    `u` = [`uniform`] the first candidate at which the running sum of weights
//!    exceeds `u` times their total is drawn.
//!
//! A temperature that is not above 0 takes the largest logit instead. A row with
//! nothing but NaN answers `u32::MAX`. Sums are in f64; a device that sums in f32
//! may draw the neighbour when `u` falls within its rounding of a boundary.

use std::cmp::Ordering;

use cajeta_abi::Problem;

use super::OracleError;
use super::argmax::argmax;
use super::operands::Operands;
pub use super::philox::uniform;
use crate::state::SampleParams;

pub(super) fn run(problem: &Problem, operands: &mut Operands<'_>) -> Result<(), OracleError> {
    let logits = operands.f32s(0, problem.m.saturating_mul(problem.n))?;
    let params = operands.plain(1).chunks_exact(size_of::<SampleParams>());
    let chosen: Vec<u32> = logits
        .chunks_exact(problem.n as usize)
        .zip(params)
        .map(|(logits, params)| choose(logits, &bytemuck::pod_read_unaligned(params)))
        .collect();
    operands.write_u32s(2, &chosen)
}

/// A token that may be drawn.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// Index of its logit.
    pub token: u32,
    /// Probability of being drawn, tempered.
    pub probability: f64,
}

/// The token drawn from one row of logits; `u32::MAX` when all are NaN.
pub fn choose(logits: &[f32], params: &SampleParams) -> u32 {
    let candidates = candidates(logits, params);
    let seed = u64::from(params.seed_hi) << 32 | u64::from(params.seed_lo);
    let target = f64::from(uniform(seed, params.counter));
    let mut running = 0.0;
    for candidate in &candidates {
        running += candidate.probability;
        if running > target {
            return candidate.token;
        }
    }
    // Rounding may leave the sum just under a target just under 1.
    candidates.last().map_or(u32::MAX, |last| last.token)
}

/// Every token that may be drawn with its probability, likeliest first. One
/// token of probability 1 when the draw is greedy; none when all logits are NaN.
pub fn candidates(logits: &[f32], params: &SampleParams) -> Vec<Candidate> {
    // Also true for a temperature that is NaN.
    if params.temperature <= 0.0 || params.temperature.is_nan() {
        return match argmax(logits) {
            u32::MAX => Vec::new(),
            token => vec![Candidate { token, probability: 1.0 }],
        };
    }
    let mut kept = largest(logits, params.top_k);
    let Some(&(_, top)) = kept.first() else { return Vec::new() };
    let plain = weights(&kept, top, 1.0);
    let total: f64 = plain.iter().sum();
    let top_p = f64::from(params.top_p);
    if top_p < 1.0 {
        let mut running = 0.0;
        let enough = plain.iter().position(|weight| {
            running += weight / total;
            running >= top_p
        });
        kept.truncate(enough.map_or(kept.len(), |index| index + 1));
    }
    let min_p = f64::from(params.min_p);
    if min_p > 0.0 {
        // Weights are relative to the first one's, which is 1, and fall.
        let likely = plain.iter().take(kept.len()).take_while(|&&weight| weight >= min_p).count();
        kept.truncate(likely.max(1));
    }
    let tempered = weights(&kept, top, f64::from(params.temperature));
    let total: f64 = tempered.iter().sum();
    let candidate =
        |(&(token, _), weight): (&(u32, f32), &f64)| Candidate { token, probability: weight / total };
    kept.iter().zip(&tempered).map(candidate).collect()
}

/// The `top_k` largest logits with their indices, in candidate order.
fn largest(logits: &[f32], top_k: u32) -> Vec<(u32, f32)> {
    let limit = match top_k {
        0 => SampleParams::CANDIDATES,
        k => k.min(SampleParams::CANDIDATES),
    } as usize;
    let order =
        |a: &(u32, f32), b: &(u32, f32)| b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal).then(a.0.cmp(&b.0));
    let mut all: Vec<(u32, f32)> =
        (0..).zip(logits.iter().copied()).filter(|(_, logit)| !logit.is_nan()).collect();
    if limit < all.len() {
        all.select_nth_unstable_by(limit, order);
        all.truncate(limit);
    }
    all.sort_unstable_by(order);
    all
}

/// `exp((logit - top) / temperature)`; equal logits weigh 1 even at infinity.
fn weights(kept: &[(u32, f32)], top: f32, temperature: f64) -> Vec<f64> {
    let weight = |&(_, logit): &(u32, f32)| {
        if logit == top { 1.0 } else { ((f64::from(logit) - f64::from(top)) / temperature).exp() }
    };
    kept.iter().map(weight).collect()
}

#[cfg(test)]
mod tests;
