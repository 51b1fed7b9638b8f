//! `cajeta bench`: how fast a model prefills and decodes here, and what a step's kernels take.

use std::path::PathBuf;
use std::time::Duration;

use cajeta::engine::{DEFAULT_CHUNK, EngineError, EngineOptions, Fill, LlmEngine};
use cajeta_model_arch::config::ModelConfig;
use cajeta_model_arch::gguf::GgufFile;
use clap::{Args, ValueEnum};

use super::answer::milliseconds;
use super::failure::{Failure, Outcome};
use super::launches::Launches;
use super::measured::{Bandwidth, Kind, Measured, Report, StepFacts};
use super::model::{BackendFlags, TuneFlags, load};
use super::output;

/// Up to this many positions, all sequences together, a depth is filled by prefill; noise above.
const CHEAP_FILL: u64 = 4096;

const EXAMPLES: &str = "\
Examples:
  cajeta bench model.gguf
  cajeta bench model.gguf -p 512,2048 -n 128 -b 1,4,16 -d 0,8192
  cajeta bench model.gguf -p 0 -n 64 -d 512 --spans
ppN computes a prompt of N tokens, tgN decodes N tokens; @bB for B sequences at once, @dD behind D
positions that are in the cache already. Tokens per second count those of all sequences.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The GGUF file
    model: PathBuf,
    /// Lengths of prompts to time; 0 for none
    #[arg(short = 'p', long = "prompt", value_name = "N,…", value_delimiter = ',', default_value = "512")]
    prompts: Vec<u32>,
    /// Numbers of tokens to decode; 0 for none
    #[arg(short = 'n', long = "tokens", value_name = "N,…", value_delimiter = ',', default_value = "128")]
    tokens: Vec<u32>,
    /// Numbers of sequences to decode at once
    #[arg(short = 'b', long = "batch", value_name = "N,…", value_delimiter = ',', default_value = "1", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batches: Vec<u32>,
    /// Positions already in the cache of each sequence
    #[arg(short = 'd', long = "depth", value_name = "N,…", value_delimiter = ',', default_value = "0")]
    depths: Vec<u32>,
    /// Time each test this many times
    #[arg(short = 'r', long = "repetitions", value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repetitions: u32,
    /// What the cache holds below a depth
    #[arg(long, value_enum, default_value_t = FillFlag::Auto)]
    fill: FillFlag,
    /// Also print how long each kernel of a step takes; such a step runs slower than a timed one
    #[arg(long)]
    spans: bool,
    /// Queue a step only when the one before is done
    #[arg(long)]
    no_pipeline: bool,
    /// Most prompt tokens computed at once
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CHUNK, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    chunk: u32,
    #[command(flatten)]
    tune: TuneFlags,
    #[command(flatten)]
    backend: BackendFlags,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum FillFlag {
    /// Prefill up to 4096 positions in all, noise above
    Auto,
    /// Keys and values of random tokens
    Prefill,
    /// Random keys and values
    Noise,
}

impl FillFlag {
    fn resolve(self, positions: u64) -> Fill {
        match self {
            FillFlag::Prefill => Fill::Prefill,
            FillFlag::Noise => Fill::Noise,
            FillFlag::Auto if positions <= CHEAP_FILL => Fill::Prefill,
            FillFlag::Auto => Fill::Noise,
        }
    }
}

/// One test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Test {
    kind: Kind,
    n: u32,
    batch: u32,
    depth: u32,
}

impl Test {
    /// The field's name for it: `tg128@b4@d8192`.
    fn name(&self) -> String {
        let mut name = match self.kind {
            Kind::Prefill => format!("pp{}", self.n),
            Kind::Decode => format!("tg{}", self.n),
        };
        if self.batch > 1 {
            name.push_str(&format!("@b{}", self.batch));
        }
        if self.depth > 0 {
            name.push_str(&format!("@d{}", self.depth));
        }
        name
    }
}

/// Every combination, a depth at a time.
fn tests(flags: &Flags) -> Vec<(u32, Vec<Test>)> {
    let of_depth = |&depth: &u32| {
        let prompts = flags.prompts.iter().filter(|&&n| n > 0);
        let prompts = prompts.map(|&n| Test { kind: Kind::Prefill, n, batch: 1, depth });
        let tokens = flags.tokens.iter().filter(|&&n| n > 0);
        let decodes = tokens.flat_map(|&n| {
            flags.batches.iter().map(move |&batch| Test { kind: Kind::Decode, n, batch, depth })
        });
        (depth, prompts.chain(decodes).collect())
    };
    flags.depths.iter().map(of_depth).collect()
}

/// Times everything that was asked for.
pub(crate) fn run(flags: Flags) -> Outcome {
    let tests = tests(&flags);
    let all = || tests.iter().flat_map(|(_, tests)| tests);
    let Some(ctx) = all().map(|test| test.depth.saturating_add(test.n)).max() else {
        return Err(Failure::usage("nothing to time; give -p or -n a number above 0"));
    };
    let most = all().map(|test| test.batch).max().unwrap_or(1);
    let mut options = EngineOptions::new(&flags.model, flags.backend.resolve()?);
    options.ctx = Some(ctx);
    options.chunk = flags.chunk;
    flags.tune.apply(&mut options);
    options.max_seqs = most;
    options.pipelined = flags.no_pipeline.then_some(false);
    let trained = ModelConfig::from_gguf(&GgufFile::open(&flags.model)?)?.n_ctx_train;
    if ctx > trained {
        let sentence = format!(
            "these tests reach {ctx} positions and the model was trained for {trained}; choose a smaller -d, -p or -n"
        );
        return Err(Failure::work(sentence));
    }
    let mut engine = load(&options)?;
    let mut report = Report {
        model: flags.model.display().to_string(),
        backend: engine.backend().id().to_owned(),
        device: engine.device().name.to_string(),
        load_ms: milliseconds(engine.load_phases().total),
        bandwidth: Bandwidth::of(engine.runner().registry.device()),
        tests: Vec::new(),
    };
    if !flags.json {
        output::text(&report.heading())?;
    }
    for (depth, tests) in tests {
        let fill = flags.fill.resolve(u64::from(depth) * u64::from(most));
        engine.fill(most, depth, fill)?;
        for test in tests {
            let mut measured = measure(&mut engine, test, flags.repetitions, report.bandwidth)?;
            if depth > 0 {
                measured.fill = Some(match fill {
                    Fill::Prefill => "prefill",
                    Fill::Noise => "noise",
                });
            }
            if flags.spans {
                measured.spans = Some(launches(&mut engine, test, flags.repetitions)?);
            }
            if !flags.json {
                output::text(&measured.lines())?;
            }
            report.tests.push(measured);
        }
    }
    if flags.json { output::json(&report) } else { Ok(()) }
}

fn measure(
    engine: &mut LlmEngine,
    test: Test,
    repetitions: u32,
    bandwidth: Option<Bandwidth>,
) -> Outcome<Measured> {
    let tokens = f64::from(test.n) * f64::from(test.batch);
    let mut runs = Vec::new();
    // The first run prepares lists and wakes the device; it is not counted.
    for run in 0..=repetitions {
        let first = run == 0;
        let n = if first && test.kind == Kind::Decode { test.n.min(8) } else { test.n };
        let time = match test.kind {
            Kind::Prefill => (engine.time_prefill(test.depth, n)?, None),
            Kind::Decode => {
                let time = engine.time_decode(test.batch, test.depth, n)?;
                (time.wall, Some(time))
            }
        };
        if !first {
            runs.push(time);
        }
    }
    runs.sort_by_key(|(wall, _)| *wall);
    let rate = |wall: Duration| tokens / wall.as_secs_f64().max(1e-9);
    let (wall, decode) = runs[runs.len() / 2];
    let step = match decode {
        None => None,
        Some(time) => {
            let costs = engine.decode_costs(test.batch, test.depth + test.n.div_ceil(2))?;
            let weight_bytes = costs.iter().map(|cost| cost.weights).sum::<u64>();
            let cache_bytes = costs.iter().map(|cost| cost.cache).sum::<u64>();
            let wall = wall / test.n;
            let bytes_per_second = (weight_bytes + cache_bytes) as f64 / wall.as_secs_f64().max(1e-9);
            Some(StepFacts {
                wall_ms: milliseconds(wall),
                device_ms: time.device.map(milliseconds),
                host_submit_us: time.submit.as_secs_f64() * 1e6,
                weight_bytes,
                cache_bytes,
                bytes_per_second,
                bandwidth_share: bandwidth.map(|most| bytes_per_second / most.bytes_per_second),
            })
        }
    };
    Ok(Measured {
        test: test.name(),
        kind: test.kind,
        n: test.n,
        batch: test.batch,
        depth: test.depth,
        fill: None,
        tokens_per_second: rate(wall),
        slowest: runs.last().map_or(0.0, |(wall, _)| rate(*wall)),
        fastest: runs.first().map_or(0.0, |(wall, _)| rate(*wall)),
        repetitions: runs.iter().map(|(wall, _)| rate(*wall)).collect(),
        step,
        spans: None,
    })
}

fn launches(engine: &mut LlmEngine, test: Test, repetitions: u32) -> Outcome<Launches> {
    let timed = match test.kind {
        Kind::Prefill => engine.profile_prefill(test.depth, test.n, repetitions),
        Kind::Decode => engine.profile_decode(test.batch, test.depth, repetitions),
    };
    match timed {
        Ok(timed) => Ok(Launches::new(engine.backend().rows(), &timed)),
        Err(EngineError::Device(error)) if error.is_unsupported() => {
            let device = &engine.device().name;
            Err(Failure::work(format!("`{device}` does not say when its kernels run; leave out --spans")))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_have_the_names_users_know() {
        let name = |kind, n, batch, depth| Test { kind, n, batch, depth }.name();
        assert_eq!(name(Kind::Prefill, 512, 1, 0), "pp512");
        assert_eq!(name(Kind::Decode, 128, 4, 8192), "tg128@b4@d8192");
        assert_eq!(name(Kind::Decode, 128, 1, 512), "tg128@d512");
    }

    #[test]
    fn deep_caches_of_many_sequences_are_noise() {
        assert_eq!(FillFlag::Auto.resolve(0), Fill::Prefill);
        assert_eq!(FillFlag::Auto.resolve(16 * 8192), Fill::Noise);
        assert_eq!(FillFlag::Prefill.resolve(16 * 8192), Fill::Prefill);
        assert_eq!(FillFlag::Noise.resolve(1), Fill::Noise);
    }
}
