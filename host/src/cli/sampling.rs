//! How tokens are drawn, as typed and as meant.

use std::hash::{BuildHasher, Hasher, RandomState};

use cajeta::engine::Sampling;
use clap::Args;

use super::failure::{Failure, Outcome};

/// What was typed.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingFlags {
    /// Divide the logits by this; 0 takes the likeliest token always
    #[arg(long, value_name = "X", default_value_t = Sampling::default().temperature, allow_negative_numbers = true)]
    temp: f32,
    /// Keep this many of the likeliest tokens; 0 keeps as many as the device looks at
    #[arg(long, value_name = "N", default_value_t = Sampling::default().top_k)]
    top_k: u32,
    /// Keep the fewest tokens whose probabilities reach this sum; 1 keeps all
    #[arg(long, value_name = "X", default_value_t = Sampling::default().top_p, allow_negative_numbers = true)]
    top_p: f32,
    /// Drop tokens less likely than this times the likeliest; 0 keeps all
    #[arg(long, value_name = "X", default_value_t = Sampling::default().min_p, allow_negative_numbers = true)]
    min_p: f32,
    /// Same seed, same prompt, same text; a random one if absent
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl SamplingFlags {
    /// The parameters, within their ranges, with a seed.
    pub(crate) fn resolve(&self) -> Outcome<Sampling> {
        let sampling = Sampling {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            seed: self.seed.unwrap_or_else(random_seed),
        };
        sampling.params().map_err(Failure::usage)?;
        Ok(sampling)
    }
}

/// A seed from the operating system's randomness, which keys the standard hasher.
fn random_seed() -> u64 {
    // 32 bits, so that people can type it again.
    RandomState::new().build_hasher().finish() & u64::from(u32::MAX)
}
