//! How long it takes to open a model file and make its tokenizer: `tokenizer_load MODEL [TIMES]`.
//!
//! Prints the fastest and the middle one of some loads, part by part, in milliseconds. Build with `--release`.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::template::ChatTemplate;
use cajeta_model_arch::tokenizer::{Special, Tokenizer};

/// The parts of a load, in order.
const PARTS: [&str; 4] = ["open file", "tokenizer", "chat template", "first text"];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(path) = args.next() else {
        eprintln!("usage: tokenizer_load MODEL [TIMES]");
        return ExitCode::from(2);
    };
    let times = args.next().and_then(|times| times.parse().ok()).unwrap_or(11usize).max(1);
    match (0..times).map(|_| load(Path::new(&path))).collect::<Result<Vec<_>, _>>() {
        Ok(loads) => {
            print(&loads);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tokenizer_load: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The time of each part of one load.
fn load(path: &Path) -> Result<[Duration; 4], Box<dyn std::error::Error>> {
    let mut laps = [Duration::ZERO; 4];
    let mut began = Instant::now();
    let mut lap = |part: usize| {
        laps[part] = began.elapsed();
        began = Instant::now();
    };
    let file = GgufFile::open(path)?;
    lap(0);
    let tokenizer = Tokenizer::from_gguf(file.metadata())?;
    lap(1);
    ChatTemplate::from_gguf(file.metadata(), &tokenizer)?;
    lap(2);
    let ids = tokenizer.encode("Why is the sky blue? 12 reasons.", Special::Parse);
    lap(3);
    tokenizer.check_ids(&ids)?;
    Ok(laps)
}

fn print(loads: &[[Duration; 4]]) {
    println!("{:<14}{:>10}{:>10}", "ms", "fastest", "middle");
    let line = |name: &str, mut times: Vec<Duration>| {
        times.sort_unstable();
        let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        println!("{name:<14}{:>10.2}{:>10.2}", ms(times.first()), ms(times.get(times.len() / 2)));
    };
    for (part, name) in PARTS.iter().enumerate() {
        line(name, loads.iter().map(|laps| laps[part]).collect());
    }
    line("all", loads.iter().map(|laps| laps.iter().sum()).collect());
}
