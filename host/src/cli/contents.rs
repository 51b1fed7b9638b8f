//! What a model file holds, as data: for `inspect`, in either of its forms.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cajeta::engine::{DEFAULT_CHUNK, human_bytes};
use cajeta::kv::KvPool;
use cajeta_model_arch::config::ModelConfig;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::plan::Plan;
use cajeta_model_arch::template::ChatTemplate;
use cajeta_model_arch::tokenizer::Tokenizer;
use cajeta_plugin_host::{SelectOptions, printable};
use serde::Serialize;

use super::failure::{Failure, Outcome};
use super::lowering::{Lowering, open, usual_context};

/// Everything `inspect` says.
#[derive(Serialize)]
pub(crate) struct Contents {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) version: u32,
    pub(crate) name: Option<String>,
    pub(crate) architecture: Option<String>,
    pub(crate) parameters: u64,
    pub(crate) n_tensors: usize,
    pub(crate) formats: Vec<FormatShare>,
    pub(crate) shape: Option<Shape>,
    pub(crate) vocabulary: Option<Vocabulary>,
    pub(crate) chat_template: bool,
    pub(crate) memory: Memory,
    pub(crate) runs: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tensors: Option<Vec<Tensor>>,
}

/// The tensors of one format.
#[derive(Serialize)]
pub(crate) struct FormatShare {
    pub(crate) format: &'static str,
    pub(crate) tensors: u64,
    pub(crate) bytes: u64,
}

/// Dimensions.
#[derive(Serialize)]
pub(crate) struct Shape {
    pub(crate) layers: u32,
    pub(crate) width: u32,
    pub(crate) feed_forward: u32,
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) head_dim: u32,
    pub(crate) context: u32,
}

/// The tokenizer's special tokens.
#[derive(Serialize)]
pub(crate) struct Vocabulary {
    pub(crate) tokens: usize,
    pub(crate) bos: Option<Token>,
    pub(crate) eos: Option<Token>,
    pub(crate) add_bos: bool,
    pub(crate) add_eos: bool,
    /// Every token that ends a generation.
    pub(crate) end: Vec<Token>,
}

/// A token.
#[derive(Serialize)]
pub(crate) struct Token {
    pub(crate) id: u32,
    pub(crate) text: String,
}

/// What a run takes.
#[derive(Serialize)]
pub(crate) struct Memory {
    pub(crate) weight_bytes: u64,
    pub(crate) kv_bytes_per_1k_tokens: Option<u64>,
}

/// Whether the model runs on the backend that would be selected.
#[derive(Serialize, Default)]
pub(crate) struct Verdict {
    pub(crate) yes: bool,
    pub(crate) backend: Option<String>,
    pub(crate) device: Option<String>,
    /// Device memory it takes at the usual context, for people.
    #[serde(skip)]
    pub(crate) note: Option<String>,
    /// Bytes of device memory at the usual context.
    pub(crate) device_bytes: Option<u64>,
    /// Why not.
    pub(crate) reasons: Vec<String>,
}

/// One tensor.
#[derive(Serialize)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dims: Vec<u64>,
    pub(crate) format: &'static str,
    pub(crate) bytes: u64,
    pub(crate) offset: u64,
}

impl Contents {
    /// Reads a file's contents, and holds them against this build and the backend that would be
    /// selected.
    ///
    /// # Errors
    /// Only when standard keys are damaged; what cannot run is part of the answer.
    pub(crate) fn read(file: &GgufFile, select: &SelectOptions) -> Outcome<Contents> {
        let text = |key| -> Outcome<Option<String>> {
            Ok(file.metadata().str(key)?.map(|text| printable::line(text, 200)))
        };
        let mut reasons = Vec::new();
        let mut kept = |reason: String| reasons.push(reason);
        let config = ModelConfig::from_gguf(file).map_err(|error| kept(error.to_string())).ok();
        let tokenizer = Tokenizer::from_gguf(file.metadata()).map_err(|error| kept(error.to_string())).ok();
        if let Some(tokenizer) = &tokenizer
            && let Err(error) = ChatTemplate::from_gguf(file.metadata(), tokenizer)
        {
            kept(error.to_string());
        }
        let plan = config
            .as_ref()
            .and_then(|config| Plan::build(config, file).map_err(|error| kept(error.to_string())).ok());
        let runs = match (&plan, &config) {
            (Some(plan), Some(config)) if reasons.is_empty() => verdict(plan, config, select),
            _ => Verdict { reasons, ..Verdict::default() },
        };
        let tensors = file.tensors();
        Ok(Contents {
            path: file.path().to_path_buf(),
            bytes: file.map().len() as u64,
            version: file.version(),
            name: text("general.name")?,
            architecture: text("general.architecture")?,
            parameters: tensors.iter().map(|tensor| tensor.n_values()).sum(),
            n_tensors: tensors.len(),
            formats: formats(file),
            shape: config.as_ref().map(shape),
            vocabulary: tokenizer.as_ref().map(vocabulary),
            chat_template: file.metadata().str("tokenizer.chat_template")?.is_some(),
            memory: Memory {
                weight_bytes: tensors.iter().map(|tensor| tensor.bytes).sum(),
                kv_bytes_per_1k_tokens: plan
                    .as_ref()
                    .map(|plan| KvPool::bytes(&plan.kv, 1024 / cajeta_catalog::kv::BLOCK_POSITIONS)),
            },
            runs,
            tensors: Some(tensors.iter().map(tensor).collect()),
        })
    }
}

fn formats(file: &GgufFile) -> Vec<FormatShare> {
    let mut shares: BTreeMap<&'static str, (u64, u64)> = BTreeMap::new();
    for tensor in file.tensors() {
        let (count, bytes) = shares.entry(tensor.format.name()).or_default();
        *count += 1;
        *bytes += tensor.bytes;
    }
    let share = |(format, (tensors, bytes))| FormatShare { format, tensors, bytes };
    let mut shares: Vec<FormatShare> = shares.into_iter().map(share).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.bytes));
    shares
}

fn shape(config: &ModelConfig) -> Shape {
    Shape {
        layers: config.n_layer,
        width: config.n_embd,
        feed_forward: config.n_ff,
        heads: config.n_head,
        kv_heads: config.n_head_kv,
        head_dim: config.head_dim_k,
        context: config.n_ctx_train,
    }
}

fn vocabulary(tokenizer: &Tokenizer) -> Vocabulary {
    let token =
        |id: u32| Token { id, text: printable::line(tokenizer.token_text(id).unwrap_or_default(), 60) };
    Vocabulary {
        tokens: tokenizer.n_vocab(),
        bos: tokenizer.bos().map(token),
        eos: tokenizer.eos().map(token),
        add_bos: tokenizer.add_bos(),
        add_eos: tokenizer.add_eos(),
        end: tokenizer.end_ids().iter().map(|&id| token(id)).collect(),
    }
}

fn tensor(tensor: &cajeta_model_arch::gguf::TensorInfo) -> Tensor {
    Tensor {
        name: printable::line(&tensor.name, 255),
        dims: tensor.dims.clone(),
        format: tensor.format.name(),
        bytes: tensor.bytes,
        offset: tensor.offset,
    }
}

/// Selects a backend and lowers the plan for it; loads nothing.
fn verdict(plan: &Plan, config: &ModelConfig, select: &SelectOptions) -> Verdict {
    let mut verdict = Verdict::default();
    if let Err(failure) = place(plan, config, select, &mut verdict) {
        let reason = match failure {
            Failure::Work(sentence) | Failure::Usage(sentence) => sentence,
            Failure::Interrupted | Failure::OutputClosed => String::new(),
        };
        verdict.reasons.push(reason);
    }
    verdict
}

fn place(plan: &Plan, config: &ModelConfig, select: &SelectOptions, verdict: &mut Verdict) -> Outcome {
    let device = open(select)?;
    verdict.backend = Some(device.backend().id().to_owned());
    verdict.device = Some(printable::line(device.facts().name.as_str(), 124));
    let ctx = usual_context(config.n_ctx_train);
    let lowering = Lowering::new(&device, plan, ctx, DEFAULT_CHUNK.min(ctx))?;
    let wanted = lowering.bytes()?.into_iter().fold(0u64, u64::saturating_add);
    let free = device.mem_info()?.free;
    verdict.device_bytes = Some(wanted);
    if wanted > free {
        return Err(Failure::work(format!(
            "it wants {} of device memory at context {ctx} and {} are free; a smaller --ctx may do",
            human_bytes(wanted),
            human_bytes(free)
        )));
    }
    verdict.note = Some(format!(", taking {} of its memory at context {ctx}", human_bytes(wanted)));
    verdict.yes = true;
    Ok(())
}
