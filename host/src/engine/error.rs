//! Everything that can keep a model from loading or a step from running, each a sentence.

use cajeta_model_arch::config::ConfigError;
use cajeta_model_arch::gguf::GgufError;
use cajeta_model_arch::plan::PlanError;
use cajeta_model_arch::template::TemplateError;
use cajeta_model_arch::tokenizer::TokenizerError;
use cajeta_plugin_host::{DeviceError, SelectError};
use thiserror::Error;

use crate::kv::KvPoolError;
use crate::lower::LowerError;
use crate::tune::TuneError;

/// A failed load or step.
#[derive(Debug, Error)]
#[allow(missing_docs)]
pub enum EngineError {
    #[error(transparent)]
    Gguf(#[from] GgufError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Select(#[from] SelectError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Lower(#[from] LowerError),
    #[error(transparent)]
    Tune(#[from] TuneError),
    #[error(transparent)]
    KvPool(#[from] KvPoolError),
    #[error("{need}; {remedy}")]
    OutOfMemory { need: Box<MemoryNeed>, remedy: &'static str },
    #[error(
        "{need}, but the system refused a part of that ({refusal}); {remedy}, or allow the process more memory"
    )]
    MemoryRefused { need: Box<MemoryNeed>, refusal: DeviceError, remedy: &'static str },
    #[error("{what} takes {bytes} bytes and the largest buffer `{device}` binds has {limit}; {remedy}")]
    LargestBinding { what: String, bytes: u64, limit: u64, device: String, remedy: &'static str },
    #[error("{asked} sequences were asked of an engine that was loaded for 1 to {limit}")]
    Sequences { asked: usize, limit: u32 },
    #[error("the prompt is empty; give at least one token (this model adds no beginning-of-text token)")]
    EmptyPrompt,
    #[error(
        "the prompt has {tokens} tokens and the context holds {ctx}; shorten it or raise --ctx (the model was trained for {trained})"
    )]
    PromptTooLong { tokens: usize, ctx: u32, trained: u32 },
    #[error("token {id} does not exist: the vocabulary has {n_vocab}")]
    UnknownToken { id: u32, n_vocab: u32 },
    #[error("--ctx {ctx} is out of range; it must be from 1 to {limit}")]
    Context { ctx: u32, limit: u32 },
    #[error("{name} {value} is out of range; it must be {range}")]
    Sampling { name: &'static str, value: f32, range: &'static str },
    #[error(
        "the model's logits are not numbers at position {position}; the file is damaged or kernel results are wrong (`cajeta backends check` tells)"
    )]
    NotANumber { position: usize },
}

impl EngineError {
    /// This error with all that was wanted, when it is the system's refusal of a part of it.
    pub(super) fn refused(self, need: &MemoryNeed) -> EngineError {
        match self {
            EngineError::Device(refusal) | EngineError::KvPool(KvPoolError::Device(refusal))
                if refusal.is_out_of_memory() =>
            {
                let remedy = need.remedy();
                EngineError::MemoryRefused { need: Box::new(need.clone()), refusal, remedy }
            }
            other => other,
        }
    }
}

/// What a model takes on a device.
#[derive(Clone, Debug)]
pub struct MemoryNeed {
    /// Bytes of weights that are copied or arranged anew; pages of the file that are read in place are none.
    pub weights: u64,
    /// Bytes of the K/V cache.
    pub kv: u64,
    /// Bytes of work space.
    pub work: u64,
    /// Positions of a sequence.
    pub ctx: u32,
    /// How many sequences the cache holds.
    pub seqs: u32,
    /// The device's name.
    pub device: String,
    /// Bytes it says are free.
    pub free: u64,
}

impl MemoryNeed {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.kv).saturating_add(self.work)
    }

    /// What to do about too little.
    pub fn remedy(&self) -> &'static str {
        match self.seqs {
            1 => "lower --ctx or choose a smaller quantization",
            _ => "decode fewer sequences, shorten the context or choose a smaller quantization",
        }
    }
}

impl std::fmt::Display for MemoryNeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [total, weights, kv] = [self.total(), self.weights, self.kv].map(human_bytes);
        let [work, free] = [self.work, self.free].map(human_bytes);
        write!(f, "the model needs {total} of device memory ({weights} weights, {kv} K/V cache")?;
        if self.seqs > 1 {
            write!(f, " of {} sequences", self.seqs)?;
        }
        write!(f, " at context {}, {work} work space) and `{}` has {free} free", self.ctx, self.device)
    }
}

/// Bytes for people: `3.4 GiB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}
