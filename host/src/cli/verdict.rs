//! Whether a model runs on the backend that would be selected: what it would take, or what is in the way.

use cajeta::engine::{Affordable, DeviceRegistry, EngineError, Extent};
use cajeta::kv::{KvPool, KvPoolError};
use cajeta_abi::Fact;
use cajeta_catalog::kv::BLOCK_POSITIONS;
use cajeta_model_arch::config::ModelConfig;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::plan::Plan;
use cajeta_plugin_host::{Device, SelectOptions, printable};
use serde::Serialize;

use super::failure::{Failure, Outcome};
use super::lowering::{Needs, open, usual_context};

/// The answer.
#[derive(Serialize, Default)]
pub(crate) struct Verdict {
    pub(crate) yes: bool,
    pub(crate) backend: Option<String>,
    pub(crate) device: Option<String>,
    /// Bytes of device memory it takes.
    pub(crate) device_bytes: Option<u64>,
    /// What they are for.
    pub(crate) needs: Option<Needs>,
    /// Bytes of device memory that are free now.
    pub(crate) free_bytes: Option<u64>,
    /// Why not.
    pub(crate) reasons: Vec<String>,
}

/// Where it would run.
pub(crate) struct Where<'a> {
    /// Which backends may be chosen.
    pub(crate) select: &'a SelectOptions,
    /// Positions of the cache, if not the usual.
    pub(crate) ctx: Option<u32>,
    /// Most rows of a prefill chunk.
    pub(crate) chunk: u32,
}

impl Where<'_> {
    /// Positions of a model's cache.
    pub(crate) fn context(&self, config: &ModelConfig) -> u32 {
        self.ctx.unwrap_or_else(|| usual_context(config.n_ctx_train))
    }
}

/// Selects a backend and lowers the model for it; loads nothing. What an engine would refuse is refused
/// with its words.
pub(crate) fn verdict(file: &GgufFile, config: &ModelConfig, place: &Where<'_>) -> Verdict {
    let mut verdict = Verdict::default();
    if let Err(failure) = judge(file, config, place, &mut verdict) {
        let reason = match failure {
            Failure::Work(sentence) | Failure::Usage(sentence) => sentence,
            Failure::Interrupted | Failure::OutputClosed => String::new(),
        };
        verdict.reasons.push(reason);
    }
    verdict.yes = verdict.reasons.is_empty();
    verdict
}

fn judge(file: &GgufFile, config: &ModelConfig, place: &Where<'_>, verdict: &mut Verdict) -> Outcome {
    let (ctx, limit) = (place.context(config), config.n_ctx_train);
    if ctx > limit {
        return Err(EngineError::Context { ctx, limit }.into());
    }
    // Rotary factors may depend on how long the context is.
    let plan = Plan::build_for_context(config, file, ctx)?;
    let device = open(place.select)?;
    verdict.backend = Some(device.backend().id().to_owned());
    verdict.device = Some(printable::line(device.facts().name.as_str(), 124));
    let extent = Extent { ctx, chunk: place.chunk.clamp(1, ctx), seqs: 1 };
    let affordable = Affordable::of(&DeviceRegistry::new(device.clone()), &plan, &extent)?;
    let needs = Needs::of(&affordable);
    verdict.needs = Some(needs);
    verdict.device_bytes = Some(needs.total());
    verdict.free_bytes = Some(affordable.need.free);
    affordable.or_refused()?;
    bindings(&plan, &device, ctx)
}

/// Whether kernels can be given every tensor and every plane of the cache.
fn bindings(plan: &Plan, device: &Device, ctx: u32) -> Outcome {
    let Some(limit) = device.facts().get(Fact::LARGEST_BINDING) else { return Ok(()) };
    if let Some(tensor) = plan.tensors.iter().find(|tensor| tensor.bytes > limit) {
        return Err(EngineError::LargestBinding {
            what: format!("tensor `{}`", tensor.name),
            bytes: tensor.bytes,
            limit,
            device: device.facts().name.to_string(),
            remedy: "run the model on another backend",
        }
        .into());
    }
    let n_blocks = ctx.div_ceil(BLOCK_POSITIONS);
    // A layer's bytes are two planes.
    let planes = plan.kv.iter().map(|shape| KvPool::bytes(std::slice::from_ref(shape), n_blocks) / 2);
    match planes.max() {
        Some(bytes) if bytes > limit => {
            let device = device.facts().name.to_string();
            Err(KvPoolError::LargestBinding { bytes, limit, device }.into())
        }
        _ => Ok(()),
    }
}
