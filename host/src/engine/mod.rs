//! Runs a model: load, prefill, decode, score.
//!
//! [`LlmEngine::load`] makes a model resident; [`LlmEngine::generate`] and [`LlmEngine::score`] run it.
//! The pieces in the order a request meets them: options, load (residency, work space, state), runner
//! (one prefill chunk), decode (steps of N sequences), generate and score (many).

mod options;
mod error;
mod registry;
mod residency;
mod workspace;
mod state;
mod sequences;
mod lists;
mod decode;
mod runner;
mod in_place;
mod settle;
mod premises;
mod widen;
mod feasible;
mod chosen;
mod affordable;
mod load;
mod warm_up;
mod announce;
mod generate;
mod together;
mod score;
mod cost;
mod noise;
mod measure;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use cajeta_abi::DeviceFacts;
use cajeta_model_arch::config::ModelConfig;
use cajeta_model_arch::template::ChatTemplate;
use cajeta_model_arch::tokenizer::Tokenizer;
use cajeta_plugin_host::Backend;

pub use affordable::{Affordable, Extent};
pub use cost::LaunchCost;
pub use decode::Step;
pub use error::{EngineError, MemoryNeed, human_bytes};
pub use generate::{FinishReason, Generation, Timings};
use load::Loaded;
pub use load::{LoadPhases, Model};
pub use measure::{DecodeTime, Fill, LaunchTime};
pub use options::{DEFAULT_CHUNK, DEFAULT_CONTEXT, EngineOptions, Sampling};
pub use premises::ask as ask_premises;
pub use registry::DeviceRegistry;
pub use runner::Runner;
pub use score::{Scored, StepScore};
pub use settle::PASSES as QUESTION_PASSES;
pub use state::DecodeRow;
pub use widen::Widened;

use crate::tune::Tuning;

/// A model resident on a device.
pub struct LlmEngine {
    model: Model,
    backend: Backend,
    runner: Runner,
    chunk: u32,
    phases: LoadPhases,
    /// Whether the whole cache was filled with noise.
    noisy: bool,
    /// Tokens whose keys and values are in the cache, in position order.
    cached: Vec<u32>,
    /// What was settled while it was loaded.
    tuning: Arc<Tuning>,
}

impl LlmEngine {
    /// Loads a model; `progress` is told bytes made resident of bytes to make so.
    ///
    /// # Errors
    /// When the file is damaged or of a kind this build does not run, no backend may serve, an op has
    /// no kernel there, or the device lacks the memory.
    pub fn load(
        options: &EngineOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<LlmEngine, EngineError> {
        let started = Instant::now();
        let mut phases = LoadPhases::default();
        let model = Model::open(&options.model)?;
        phases.read = started.elapsed();
        let Loaded { selected, runner, chunk, tuning } = load::load(options, &model, &mut phases, progress)?;
        let (backend, tuning) = (selected.backend.clone(), Arc::new(tuning));
        let mut engine = LlmEngine {
            model,
            backend,
            runner,
            chunk,
            phases,
            noisy: false,
            cached: Vec::new(),
            tuning: tuning.clone(),
        };
        let warming = Instant::now();
        if options.warm_up {
            let _hold = tuning.hold();
            engine.warm_up()?;
        }
        engine.phases.warm_up = warming.elapsed();
        engine.phases.total = started.elapsed();
        announce::announce(&engine, tuning.spent());
        Ok(engine)
    }

    /// Where the model came from.
    pub fn path(&self) -> &Path {
        self.model.file.path()
    }

    /// The model's shape.
    pub fn config(&self) -> &ModelConfig {
        &self.model.config
    }

    /// The model's tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.model.tokenizer
    }

    /// The model's chat template, if it has one.
    pub fn template(&self) -> Option<&ChatTemplate> {
        self.model.template.as_ref()
    }

    /// The backend in use.
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// The device in use.
    pub fn device(&self) -> &DeviceFacts {
        self.runner.registry.device().facts()
    }

    /// Positions the cache holds.
    pub fn ctx(&self) -> u32 {
        self.runner.ctx
    }

    /// Most rows of a prefill chunk.
    pub fn chunk(&self) -> u32 {
        self.chunk
    }

    /// How long each part of the load took.
    pub fn load_phases(&self) -> LoadPhases {
        self.phases
    }

    /// The choices of its device, with what was timed for them.
    pub fn tuning(&self) -> &Arc<Tuning> {
        &self.tuning
    }

    /// What runs steps; for looking at kernels.
    pub fn runner(&self) -> &Runner {
        &self.runner
    }

    fn check_tokens(&self, ids: &[u32]) -> Result<(), EngineError> {
        let n_vocab = self.model.config.n_vocab;
        match ids.iter().find(|&&id| id >= n_vocab) {
            Some(&id) => Err(EngineError::UnknownToken { id, n_vocab }),
            None => Ok(()),
        }
    }
}
