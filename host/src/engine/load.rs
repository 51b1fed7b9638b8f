//! Loads a model: file, configuration, tokenizer, plan, device, weights, cache, work space.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cajeta_abi::Capability;
use cajeta_catalog::kv::BLOCK_POSITIONS;
use cajeta_model_arch::config::ModelConfig;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::plan::Plan;
use cajeta_model_arch::template::ChatTemplate;
use cajeta_model_arch::tokenizer::Tokenizer;
use cajeta_plugin_host::{Selected, activate};

use super::decode::Decode;
use super::error::{EngineError, MemoryNeed};
use super::options::{DEFAULT_CONTEXT, EngineOptions};
use super::registry::DeviceRegistry;
use super::residency::Residency;
use super::runner::{Parts, Runner, chunk_layout, decode_layout};
use super::sequences::Sequences;
use super::settle;
use super::state::StepBuffer;
use super::workspace::Workspace;
use crate::kv::KvPool;
use crate::lower::{self, Segment, Sizes, WeightKey};
use crate::route::Registry;
use crate::tune::Tuning;
use crate::tune::store::tune_directory;

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
    let directory = tune_directory(options.tune_dir.as_deref());
    let tuning = Tuning::new(&device, directory.as_deref());
    phases.device = started.elapsed();

    let started = Instant::now();
    let placement = Placement { registry: DeviceRegistry::new(device), ctx, chunk };
    let mut runner = make_resident(options, model, placement, progress)?;
    phases.weights = started.elapsed();

    let started = Instant::now();
    // Without a place to remember answers every load would measure again.
    if directory.is_some() {
        let asked = questions(settle::rows_asked(&runner.registry, chunk), options.max_seqs.max(1), ctx);
        settle::settle(&mut runner, &tuning, &asked)?;
    }
    phases.prewarm = started.elapsed();
    Ok(Loaded { selected, runner, chunk, tuning })
}

fn make_resident(
    options: &EngineOptions,
    model: &Model,
    placement: Placement,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Runner, EngineError> {
    let Placement { registry, ctx, chunk } = placement;
    // Rotary factors may depend on how long the context is.
    let plan = Plan::build_for_context(&model.config, &model.file, ctx)?;
    let seqs = options.max_seqs.max(1);
    let n_blocks = seqs.saturating_mul(ctx.div_ceil(BLOCK_POSITIONS));
    let wishes = wishes(chunk, seqs, ctx);
    let (wanted, need) = affordable(&registry, &plan, &wishes, Cache { seqs, ctx, n_blocks })?;
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

/// What generating and scoring will run. A step of few sequences may want other layouts than one of
/// many, so the numbers between one and the most are wished for by powers of two.
fn wishes(chunk: u32, seqs: u32, ctx: u32) -> Vec<(Segment, Sizes)> {
    let prefill =
        |rows, out_rows| Sizes { rows, out_rows, seqs: 1, context: ctx, state: chunk_layout(chunk, ctx) };
    let decode = |seqs_now| Sizes {
        rows: seqs_now,
        out_rows: seqs_now,
        seqs: seqs_now,
        context: ctx,
        state: decode_layout(seqs, ctx),
    };
    let mut wishes = vec![
        (Segment::Body, prefill(chunk, 1)),
        (Segment::TailToken, prefill(chunk, 1)),
        (Segment::Tail, prefill(chunk, chunk)),
    ];
    let counts = std::iter::successors(Some(1u32), |count| count.checked_mul(2));
    let counts = counts.take_while(|&count| count < seqs).chain([seqs]);
    wishes.extend(counts.map(|count| (Segment::Step, decode(count))));
    wishes
}

/// What is worth measuring: all of [`wishes`] but the logits of many rows, which scoring alone computes
/// and whose operands are the largest there are. Steps come first, in case time runs out.
fn questions(chunk: u32, seqs: u32, ctx: u32) -> Vec<(Segment, Sizes)> {
    let mut asked = wishes(chunk, seqs, ctx);
    asked.retain(|(segment, _)| *segment != Segment::Tail);
    asked.sort_by_key(|(segment, _)| *segment != Segment::Step);
    asked
}

/// The cache an engine will have.
#[derive(Clone, Copy)]
struct Cache {
    seqs: u32,
    ctx: u32,
    n_blocks: u32,
}

/// The weights to make resident: every layout the segments wish for if that fits the device, else the
/// file's own bytes alone; an error when not even those fit.
fn affordable(
    registry: &DeviceRegistry,
    plan: &Plan,
    wishes: &[(Segment, Sizes)],
    cache: Cache,
) -> Result<(BTreeSet<WeightKey>, MemoryNeed), EngineError> {
    let device = registry.device();
    let free = device.mem_info()?.free;
    let kv = KvPool::bytes(&plan.kv, cache.n_blocks);
    let need = |wish: &Wish| MemoryNeed {
        weights: wish.weights,
        kv,
        work: wish.work,
        ctx: cache.ctx,
        seqs: cache.seqs,
        device: device.facts().name.to_string(),
        free,
    };
    let first = Wish::of(registry, plan, wishes, &|_| true)?;
    let first_need = need(&first);
    if first_need.total() <= free {
        return Ok((first.keys, first_need));
    }
    // Where file blocks alone cannot serve, the first wish is what the refusal is about.
    let last = Wish::of(registry, plan, wishes, &WeightKey::is_file).unwrap_or(first);
    let need = need(&last);
    if need.total() <= free {
        return Ok((last.keys, need));
    }
    Err(EngineError::OutOfMemory { remedy: need.remedy(), need: Box::new(need) })
}

/// The weights some segments want, and what they and the work take on the device.
struct Wish {
    keys: BTreeSet<WeightKey>,
    weights: u64,
    work: u64,
}

impl Wish {
    fn of(
        registry: &DeviceRegistry,
        plan: &Plan,
        wishes: &[(Segment, Sizes)],
        allowed: &dyn Fn(&WeightKey) -> bool,
    ) -> Result<Wish, EngineError> {
        let mut wish = Wish { keys: BTreeSet::new(), weights: 0, work: 0 };
        for (segment, sizes) in wishes {
            wish.keys.extend(lower::declare(registry, plan, *segment, sizes, allowed)?);
            let program = lower::lower(registry, plan, *segment, sizes, &|key| wish.keys.contains(key))?;
            wish.work = wish.work.max(program.arena + program.scratch + program.semaphores);
        }
        let in_place = registry.supports(Capability::IMPORT);
        for key in wish.keys.iter().filter(|key| !(in_place && key.is_file())) {
            wish.weights += lower::weight_bytes(registry, plan, key)
                .map_err(|text| lower::LowerError::Backend { what: "the size of a weight".into(), text })?;
        }
        Ok(wish)
    }
}
