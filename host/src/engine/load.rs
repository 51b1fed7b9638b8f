//! Loads a model: file, configuration, tokenizer, plan, device, weights, cache, work space.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cajeta_abi::Capability;
use cajeta_model_arch::config::ModelConfig;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::plan::Plan;
use cajeta_model_arch::template::ChatTemplate;
use cajeta_model_arch::tokenizer::Tokenizer;
use cajeta_plugin_host::{Selected, activate};

use super::affordable::{Affordable, Extent};
use super::chosen;
use super::decode::Decode;
use super::error::EngineError;
use super::feasible;
use super::options::{DEFAULT_CONTEXT, EngineOptions};
use super::premises;
use super::registry::DeviceRegistry;
use super::residency::Residency;
use super::runner::{Parts, Runner, chunk_layout, decode_layout};
use super::sequences::Sequences;
use super::settle;
use super::state::StepBuffer;
use super::workspace::Workspace;
use crate::kv::KvPool;
use crate::record::Record;
use crate::route::Registry;
use crate::tune::Tuning;
use crate::tune::store::{Place, tune_place};

/// What a load did and how long each part took.
#[derive(Clone, Copy, Default, Debug)]
pub struct LoadPhases {
    /// Header, configuration, tokenizer, plan.
    pub read: Duration,
    /// Finding, probing and opening the backend.
    pub device: Duration,
    /// Making weights resident.
    pub weights: Duration,
    /// Settling which kernels serve.
    pub prewarm: Duration,
    /// The throwaway prefill and decode.
    pub warm_up: Duration,
    /// Everything.
    pub total: Duration,
}

/// A model read from its file, before any device is touched.
pub struct Model {
    /// The file.
    pub file: GgufFile,
    /// Its shape.
    pub config: ModelConfig,
    /// Its tokenizer; shared, so that a generation's listener can decode while the engine runs.
    pub tokenizer: Arc<Tokenizer>,
    /// Its chat template, if it has one.
    pub template: Option<ChatTemplate>,
    /// Its ops.
    pub plan: Plan,
}

impl Model {
    /// Reads a model.
    pub fn open(path: &std::path::Path) -> Result<Model, EngineError> {
        let file = GgufFile::open(path)?;
        let config = ModelConfig::from_gguf(&file)?;
        let tokenizer = Arc::new(Tokenizer::from_gguf(file.metadata())?);
        let template = ChatTemplate::from_gguf(file.metadata(), &tokenizer)?;
        let plan = Plan::build(&config, &file)?;
        Ok(Model { file, config, tokenizer, template, plan })
    }
}

/// A device a model is about to be loaded on, with the sizes that were chosen.
pub(super) struct Placement {
    pub registry: DeviceRegistry,
    pub plan: Plan,
    pub ctx: u32,
    pub chunk: u32,
}

/// The context and chunk an engine will have.
pub(super) fn sizes(options: &EngineOptions, config: &ModelConfig) -> Result<(u32, u32), EngineError> {
    let limit = config.n_ctx_train;
    let ctx = options.ctx.unwrap_or(limit.min(DEFAULT_CONTEXT));
    if ctx == 0 || ctx > limit {
        return Err(EngineError::Context { ctx, limit });
    }
    Ok((ctx, options.chunk.clamp(1, ctx)))
}

/// A resident model.
pub(super) struct Loaded {
    pub selected: &'static Selected,
    pub runner: Runner,
    pub chunk: u32,
    pub tuning: Tuning,
}

/// Selects the device, makes the model resident on it and settles which kernels serve.
pub(super) fn load(
    options: &EngineOptions,
    model: &Model,
    phases: &mut LoadPhases,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Loaded, EngineError> {
    let (ctx, chunk) = sizes(options, &model.config)?;
    let started = Instant::now();
    let selected = activate(&options.select)?;
    let device = selected.open()?;
    let kept = tune_place(options.tune_dir.as_deref());
    let tuning = Tuning::new(&device, kept.folder());
    let fixed = tuning.fix(&options.overrides, device.backend().rows())?;
    phases.device = started.elapsed();

    let started = Instant::now();
    // Rotary factors may depend on how long the context is.
    let plan = Plan::build_for_context(&model.config, &model.file, ctx)?;
    let mut registry = DeviceRegistry::new(device);
    registry.obey(&tuning);
    // Without a place to remember answers each execution measures once. What is fixed needs no measuring.
    let off = kept == Place::Off;
    let asks = !off || fixed;
    let hold = off.then(|| tuning.hold());
    if asks {
        let widens = options.widen_budget != Some(0);
        // What a busy device is found to do best is no premise.
        let busy = !options.measure_all && tuning.is_busy();
        let _hold = busy.then(|| tuning.hold());
        let found = premises::ask(&registry, &tuning, &plan, chunk, widens)?;
        registry.assume(found);
    }
    let asking = started.elapsed();

    let started = Instant::now();
    let placement = Placement { registry, plan, ctx, chunk };
    let mut runner = make_resident(options, model, placement, progress)?;
    phases.weights = started.elapsed();

    let started = Instant::now();
    let extent = Extent { ctx, chunk, seqs: options.max_seqs.max(1) };
    if asks {
        let asked = extent.questions(&runner.registry);
        settle::settle(&mut runner, &tuning, &asked, options.poison, options.measure_all)?;
        chosen::warn_of_unused(&runner, &tuning, &extent)?;
        kept.warn_if_nowhere();
    } else {
        // Nothing is timed, so all that will run is asked about.
        feasible::pass_over_infeasible(&mut runner, &extent.wishes())?;
    }
    drop(hold);
    phases.prewarm = asking + started.elapsed();
    Ok(Loaded { selected, runner, chunk, tuning })
}

fn make_resident(
    options: &EngineOptions,
    model: &Model,
    placement: Placement,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Runner, EngineError> {
    let Placement { registry, plan, ctx, chunk } = placement;
    let seqs = options.max_seqs.max(1);
    let extent = Extent { ctx, chunk, seqs };
    let n_blocks = extent.n_blocks();
    let affordable = Affordable::within(&registry, &plan, &extent, options.widen_budget)?;
    let Affordable { keys: wanted, need, widened, .. } = affordable.or_refused()?;
    if let Some(widened) = widened {
        Record::from(widened.record(&plan)).emit();
    }
    let refused = |error: EngineError| error.refused(&need);

    let device = registry.device().clone();
    let mut queue = device.queue()?;
    let residency =
        Residency::load(&registry, &mut queue, &plan, &model.file, &wanted, progress).map_err(refused)?;
    let kv = KvPool::new(&device, &plan.kv, n_blocks, options.poison).map_err(|e| refused(e.into()))?;
    let hidden = u64::from(chunk.max(seqs)) * plan.value(plan.hidden).width * 4;
    let workspace = Workspace::new(&device, hidden, options.poison).map_err(refused)?;
    let state = StepBuffer::new(&device, &mut queue, chunk_layout(chunk, ctx)).map_err(refused)?;
    let has_clock = registry.supports(Capability::EVENT_CLOCK);
    let decode = Decode::new(&device, &mut queue, decode_layout(seqs, ctx), has_clock).map_err(refused)?;
    let sequences = Sequences::new(seqs, ctx, n_blocks);
    let pipelined = options.pipelined.unwrap_or_else(|| registry.supports(Capability::ASYNC));
    Ok(Runner::new(Parts {
        registry,
        queue,
        plan,
        residency,
        kv,
        sequences,
        chunk: state,
        decode,
        workspace,
        ctx,
        pipelined,
    }))
}
