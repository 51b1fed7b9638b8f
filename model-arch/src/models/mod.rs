//! The architectures: one file each, in forward order.

mod llama;

use crate::config::ModelConfig;
use crate::gguf::GgufFile;
use crate::plan::{Plan, PlanError};

/// The plan of a model by its architecture, which [`ModelConfig`] has already held against the list
/// of those this build runs.
pub(crate) fn build(config: &ModelConfig, file: &GgufFile) -> Result<Plan, PlanError> {
    llama::build(config, file)
}
