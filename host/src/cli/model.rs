//! The model an engine is loaded from, and where it may run: as typed, as meant, and loaded.

use std::path::{Path, PathBuf};

use cajeta::engine::{DEFAULT_CHUNK, DEFAULT_CONTEXT, EngineOptions, LlmEngine};
use cajeta::settings::select_options;
use cajeta::tune::overrides;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::tokenizer::Tokenizer;
use cajeta_plugin_host::SelectOptions;
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
}

impl TuneFlags {
    /// Tells an engine.
    pub(crate) fn apply(&self, options: &mut EngineOptions) {
        options.tune_dir = self.tune_dir.clone();
        options.overrides = self.prefer.clone();
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
