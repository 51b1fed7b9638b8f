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
    #[arg(long, visible_alias = "temperature", value_name = "X", default_value_t = Sampling::default().temperature, allow_negative_numbers = true)]
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
    /// Same seed, same prompt, same text; a random one if absent or -1
    #[arg(short, long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    seed: Option<Seed>,
}

/// What was typed about an answer's length.
#[derive(Args, Debug)]
#[command(next_help_heading = "Answer")]
pub(crate) struct LengthFlags {
    /// Generate at most this many tokens; without it, or with -1, until the model or the context ends
    #[arg(short = 'n', long = "tokens", visible_aliases = ["predict", "n-predict"], value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    tokens: Option<i64>,
}

impl LengthFlags {
    /// Most tokens of an answer; none if it ends by itself.
    pub(crate) fn resolve(&self) -> Option<usize> {
        self.tokens.and_then(|tokens| usize::try_from(tokens).ok())
    }
}

/// Where draws begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Seed {
    Given(u64),
    Random,
}

fn seed(text: &str) -> Result<Seed, String> {
    match text {
        "-1" => Ok(Seed::Random),
        number => {
            let seed = number.parse().map(Seed::Given);
            seed.map_err(|_| format!("expected -1 or a number from 0 to {}", u64::MAX))
        }
    }
}

impl SamplingFlags {
    /// The parameters, within their ranges, with a seed.
    pub(crate) fn resolve(&self) -> Outcome<Sampling> {
        let sampling = Sampling {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            seed: match self.seed {
                Some(Seed::Given(seed)) => seed,
                Some(Seed::Random) | None => random_seed(),
            },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minus_one_is_any_seed() {
        assert_eq!(seed("-1"), Ok(Seed::Random));
        assert_eq!(seed("18446744073709551615"), Ok(Seed::Given(u64::MAX)));
        for bad in ["-2", "18446744073709551616", "1.5", "", "x"] {
            assert!(seed(bad).is_err(), "{bad}");
        }
    }
}
