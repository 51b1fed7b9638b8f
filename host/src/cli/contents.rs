//! What a model file holds, as data: for `inspect`, in either of its forms.

use std::path::PathBuf;

use cajeta::kv::KvPool;
use cajeta_catalog::kv::BLOCK_POSITIONS;
use cajeta_model_arch::config::ModelConfig;
use cajeta_model_arch::gguf::GgufFile;
use cajeta_model_arch::plan::Plan;
use cajeta_model_arch::template::ChatTemplate;
use cajeta_model_arch::tokenizer::Tokenizer;
use cajeta_plugin_host::printable;
use serde::Serialize;

use super::conversation::takes_instructions;
use super::failure::Outcome;
use super::verdict::{Verdict, Where, verdict};
use super::weights::{ClassShare, FormatShare, classes, formats};

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
    pub(crate) classes: Vec<ClassShare>,
    pub(crate) shape: Option<Shape>,
    pub(crate) vocabulary: Option<Vocabulary>,
    pub(crate) chat_template: bool,
    pub(crate) template: Option<Template>,
    pub(crate) memory: Memory,
    pub(crate) runs: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tensors: Option<Vec<Tensor>>,
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
    /// The kind of tokenizer, and the rules that split words for it.
    pub(crate) model: Option<String>,
    pub(crate) pre: Option<String>,
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
    /// The context in question, and the K/V cache for it.
    pub(crate) context: Option<u32>,
    pub(crate) kv_bytes: Option<u64>,
}

/// What the chat template can do.
#[derive(Serialize)]
pub(crate) struct Template {
    pub(crate) bytes: usize,
    /// Whether it takes instructions to the model.
    pub(crate) system: bool,
    /// Whether it speaks of tools.
    pub(crate) tools: bool,
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
    pub(crate) fn read(file: &GgufFile, place: &Where<'_>) -> Outcome<Contents> {
        let text = |key| -> Outcome<Option<String>> {
            Ok(file.metadata().str(key)?.map(|text| printable::line(text, 200)))
        };
        let mut reasons = Vec::new();
        let mut kept = |reason: String| reasons.push(reason);
        let config = ModelConfig::from_gguf(file).map_err(|error| kept(error.to_string())).ok();
        let tokenizer = Tokenizer::from_gguf(file.metadata()).map_err(|error| kept(error.to_string())).ok();
        let template = tokenizer.as_ref().and_then(|tokenizer| {
            ChatTemplate::from_gguf(file.metadata(), tokenizer).map_err(|error| kept(error.to_string())).ok()
        });
        let plan = config
            .as_ref()
            .and_then(|config| Plan::build(config, file).map_err(|error| kept(error.to_string())).ok());
        let runs = match (&plan, &config) {
            (Some(_), Some(config)) if reasons.is_empty() => verdict(file, config, place),
            _ => Verdict { reasons, ..Verdict::default() },
        };
        let context = config.as_ref().map(|config| place.context(config));
        let tensors = file.tensors();
        Ok(Contents {
            path: file.path().to_path_buf(),
            bytes: file.map().len() as u64,
            version: file.version(),
            name: text("general.name")?,
            architecture: text("general.architecture")?,
            parameters: tensors.iter().map(|tensor| tensor.n_values()).sum(),
            n_tensors: tensors.len(),
            formats: formats(tensors.iter()),
            classes: classes(tensors),
            shape: config.as_ref().map(shape),
            vocabulary: match &tokenizer {
                Some(tokenizer) => {
                    let (model, pre) = (text("tokenizer.ggml.model")?, text("tokenizer.ggml.pre")?);
                    Some(Vocabulary { model, pre, ..vocabulary(tokenizer) })
                }
                None => None,
            },
            chat_template: file.metadata().str("tokenizer.chat_template")?.is_some(),
            template: template.flatten().as_ref().map(abilities),
            memory: Memory {
                weight_bytes: tensors.iter().map(|tensor| tensor.bytes).sum(),
                kv_bytes_per_1k_tokens: plan
                    .as_ref()
                    .map(|plan| KvPool::bytes(&plan.kv, 1024 / BLOCK_POSITIONS)),
                context,
                kv_bytes: plan
                    .as_ref()
                    .zip(context)
                    .map(|(plan, context)| KvPool::bytes(&plan.kv, context.div_ceil(BLOCK_POSITIONS))),
            },
            runs,
            tensors: Some(tensors.iter().map(tensor).collect()),
        })
    }
}

fn abilities(template: &ChatTemplate) -> Template {
    Template {
        bytes: template.source().len(),
        system: takes_instructions(template),
        tools: template.source().contains("tools"),
    }
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
        model: None,
        pre: None,
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
