//! The architectures: one file each, in forward order; and the parts several of them share.

mod rope;
mod parts;
mod llama;
mod qwen2;
mod qwen3;
mod gemma2;
mod gemma3;
mod phi3;

use crate::config::ModelConfig;
use crate::gguf::GgufFile;
use crate::plan::{Builder, Plan, PlanError, PlanProblem};

/// The plan of a model by its architecture, for a context of `ctx` positions.
pub(crate) fn build(config: &ModelConfig, file: &GgufFile, ctx: u32) -> Result<Plan, PlanError> {
    let b = Builder::new(file);
    if config.head_dim_k != config.head_dim_v {
        return Err(b.fail(PlanProblem::HeadDims { k: config.head_dim_k, v: config.head_dim_v }));
    }
    match config.architecture.as_str() {
        "llama" => llama::build(config, b, ctx),
        "qwen2" => qwen2::build(config, b, ctx),
        "qwen3" => qwen3::build(config, b, ctx),
        "gemma2" => gemma2::build(config, b, ctx),
        "gemma3" => gemma3::build(config, b, ctx),
        "phi3" => phi3::build(config, b, ctx),
        // `ModelConfig` has held the name against the list already; a name listed there and not here
        // must not run as something else.
        other => Err(b.fail(PlanProblem::Architecture { found: other.into() })),
    }
}

#[cfg(test)]
mod tests;
