//! The launch shape of a row: work items over threads, and the scratch it takes.

use cajeta_plugin_api::abi::{DeviceFacts, Fact, Geometry, Problem};
use cajeta_plugin_api::{Answer, Fault};

use super::{Entry, Kind};
use crate::task::{attention_scratch_bytes, gemm_scratch_bytes};

/// Geometry of an entry at a problem. The grid is the threads that share the
/// work; a block is one of them.
pub(crate) fn geometry(entry: Entry, facts: &DeviceFacts, problem: &Problem) -> Answer<Geometry> {
    let scratch = match entry.kind {
        kind if kind.is_product() => gemm_scratch_bytes(entry.tier, problem.m, problem.k),
        Kind::Attention => attention_scratch_bytes(problem.m, problem.n, problem.k),
        _ => Some(0),
    };
    let scratch_bytes = scratch.ok_or_else(|| {
        Fault::invalid(format!(
            "the scratch of a problem of {} x {} x {} overflows",
            problem.m, problem.n, problem.k
        ))
    })?;
    let threads = facts.get(Fact::MULTIPROCESSORS).unwrap_or(1).clamp(1, 1024) as u32;
    Ok(Geometry {
        grid: [threads, 1, 1],
        block: [1, 1, 1],
        cluster: [1, 1, 1],
        static_shared: 0,
        dynamic_shared: 0,
        scratch_bytes,
        semaphore_bytes: 0,
        split_min: 1,
        split_max: 1,
        coresident: 0,
    })
}
