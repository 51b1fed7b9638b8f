//! The model an engine is loaded from, and where it may run: as typed, as meant, and loaded.

use std::path::{Path, PathBuf};

use cajeta::engine::{DEFAULT_CHUNK, DEFAULT_CONTEXT, EngineOptions, LlmEngine};
use cajeta::route::usable::select_options;
use cajeta::tune::overrides;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::tokenizer::Tokenizer;
use cajeta_plugin_host::{SelectOptions, printable};
use clap::Args;

use super::failure::Outcome;
use super::progress::Progress;

/// What was typed about the model.
#[derive(Args, Debug)]
pub(crate) struct ModelFlags {
    /// The GGUF file
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) placement: PlacementFlags,
}

/// What was typed about where and how large.
#[derive(Args, Debug)]
#[command(next_help_heading = "Placement")]
pub(crate) struct PlacementFlags {
    /// Positions the K/V cache holds; the model's trained context, at most 8192, if absent
    #[arg(short, long, visible_alias = "ctx-size", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ctx: Option<u32>,
    /// Most prompt tokens computed at once
    #[arg(long, visible_alias = "ubatch-size", value_name = "N", default_value_t = DEFAULT_CHUNK, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) chunk: u32,
    #[command(flatten)]
    pub(crate) tune: TuneFlags,
    /// Load without a throwaway prefill and decode; the first request is slower for it
    #[arg(long, visible_alias = "no-warmup")]
    pub(crate) no_warm_up: bool,
    #[command(flatten)]
    pub(crate) backend: BackendFlags,
}

/// What was typed about choices between kernels.
#[derive(Args, Debug)]
pub(crate) struct TuneFlags {
    /// Keep measured choices in this folder; `off` measures nothing. Wins over CAJETA_LLM_TUNE_DIR
    #[arg(long, value_name = "DIR")]
    pub(crate) tune_dir: Option<PathBuf>,
    /// Have this row serve where its family is asked (`cajeta kernels` lists both); `parts` for ROW runs
    /// a fusion's parts in its place. Instead of the family, a choice's name as `cajeta tune list` has it.
    /// May be given several times; wins over CAJETA_LLM_SHAPE_OVERRIDE
    #[arg(long, value_name = "FAMILY=ROW", value_parser = overrides::parse)]
    pub(crate) prefer: Vec<(String, String)>,
    /// Most memory for widened copies of weights, in bytes or with k, M or G, where prefill is faster over
    /// those; 0 makes none. If absent, at most a quarter of what is free
    #[arg(long, value_name = "SIZE", value_parser = size, allow_negative_numbers = true)]
    pub(crate) widen_budget: Option<u64>,
}

/// Bytes, or so many KiB, MiB or GiB.
fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    if !text.starts_with(|c: char| c.is_ascii_digit()) {
        return Err("expected a whole number of bytes, such as 0 or 512M".to_owned());
    }
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    if unit.starts_with(['.', ',']) {
        return Err("expected a whole number; a smaller unit says parts, as 1536M does 1.5G".to_owned());
    }
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => {
            let unit = printable::line(unit, 20);
            return Err(format!("the unit is {unit:?}; expected k, M, G or T, or none for bytes"));
        }
    };
    // Digits that are no number are too many of them.
    let bytes = number.parse().ok().and_then(|number: u64| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "that is more than any memory".to_owned())
}

impl TuneFlags {
    /// Tells an engine.
    pub(crate) fn apply(&self, options: &mut EngineOptions) {
        options.tune_dir = self.tune_dir.clone();
        options.overrides = self.prefer.clone();
        options.widen_budget = self.widen_budget;
    }
}

/// What was typed about the backend.
#[derive(Args, Debug)]
pub(crate) struct BackendFlags {
    /// Use this backend and no other; wins over CAJETA_XPU_BACKEND
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Use the device at this position of `cajeta devices`
    #[arg(long, value_name = "N")]
    device: Option<u32>,
}

// The help text above says the number.
const _: () = assert!(DEFAULT_CONTEXT == 8192);

impl BackendFlags {
    /// Which backends may be chosen, by these flags, the environment and the settings.
    pub(crate) fn resolve(&self) -> Outcome<SelectOptions> {
        let mut select = select_options()?;
        select.force = self.backend.clone();
        select.device = self.device;
        Ok(select)
    }
}

impl ModelFlags {
    /// What the engine is told.
    pub(crate) fn resolve(&self) -> Outcome<EngineOptions> {
        let mut options = EngineOptions::new(&self.model, self.placement.backend.resolve()?);
        options.ctx = self.placement.ctx;
        options.chunk = self.placement.chunk;
        options.warm_up = !self.placement.no_warm_up;
        self.placement.tune.apply(&mut options);
        Ok(options)
    }
}

/// Loads a model, with a bar while that takes long.
pub(crate) fn load(options: &EngineOptions) -> Outcome<LlmEngine> {
    let mut progress = Progress::new("loading");
    Ok(LlmEngine::load(options, &mut |done, total| progress.update(done, total))?)
}

/// The tokenizer of a file, without reading anything else of it.
pub(crate) fn tokenizer(path: &Path) -> Outcome<Tokenizer> {
    let file = GgufFile::open(path)?;
    Ok(Tokenizer::from_gguf(file.metadata())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in [("0", 0), ("17", 17), ("4k", 4096), ("512M", 512 << 20), ("2 GiB", 2 << 30)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for (bad, words) in [
            ("", "expected a whole number of bytes"),
            ("M", "expected a whole number of bytes"),
            ("-1", "expected a whole number of bytes"),
            ("1.5G", "1536M"),
            ("3 parsecs", "the unit is \"parsecs\""),
            ("99999999999T", "more than any memory"),
            ("99999999999999999999999", "more than any memory"),
        ] {
            let why = size(bad).expect_err(bad);
            assert!(why.contains(words), "{bad}: {why}");
        }
    }
}
