//! Says what a load did and how requests will be served, as records.

use std::time::Duration;

use super::LlmEngine;
use super::load::LoadPhases;
use super::runner::Runner;
use crate::kv::KvPool;
use crate::lower::{self, Segment};
use crate::record::{DecodeBatch, DecodeMode, KvCeiling, LoadPhase, PrefillBatchRefused, Record};
use crate::tune::Spent;

/// Says it once, when a load is done.
pub(super) fn announce(engine: &LlmEngine, spent: Spent) {
    Record::from(load_phase(engine, spent)).emit();
    Record::from(decode_mode(&engine.runner)).emit();
    Record::from(kv_ceiling(&engine.runner)).emit();
    let runner = &engine.runner;
    let chunk = (Segment::Body, runner.sizes(engine.chunk, 1, runner.ctx));
    if engine.chunk > 1
        && let Some(why) = refusal(runner, chunk)
    {
        Record::from(PrefillBatchRefused { why }).emit();
    }
    let seqs = runner.max_seqs();
    if seqs > 1
        && let Some(refused) = refusal(runner, (Segment::Step, runner.decode_sizes(seqs, runner.ctx)))
    {
        Record::from(DecodeBatch { refused }).emit();
    }
}

/// The first projection that is computed row by row, and the gate that says so.
fn refusal(runner: &Runner, (segment, sizes): (Segment, lower::Sizes)) -> Option<String> {
    let resident = |key: &lower::WeightKey| runner.residency.has(key);
    let refusal = lower::batch_refusal(&runner.registry, &runner.plan, segment, &sizes, &resident)?;
    Some(refusal.to_string())
}

fn load_phase(engine: &LlmEngine, spent: Spent) -> LoadPhase {
    let LoadPhases { read, device, weights, prewarm, warm_up, total } = engine.phases;
    let residency = &engine.runner.residency;
    LoadPhase {
        model: engine.path().display().to_string(),
        backend: engine.backend.id().to_owned(),
        device: engine.device().name.to_string(),
        read_ms: milliseconds(read),
        device_ms: milliseconds(device),
        weights_ms: milliseconds(weights),
        prewarm_ms: milliseconds(prewarm),
        warm_up_ms: milliseconds(warm_up),
        total_ms: milliseconds(total),
        mapped_bytes: residency.mapped,
        uploaded_bytes: residency.uploaded,
        packed_bytes: residency.relaid,
        packs: residency.packs,
        stored_probe_launches: spent.stored,
        memory_probe_launches: spent.memory,
    }
}

fn decode_mode(runner: &Runner) -> DecodeMode {
    let (mode, why) = match (runner.max_seqs(), runner.pipelined) {
        (1, true) => ("pipelined", "a step is queued while the one before runs".to_owned()),
        (1, false) => ("single", "a step is queued when the one before is done".to_owned()),
        (seqs, _) => ("batched", format!("up to {seqs} sequences take each step together")),
    };
    DecodeMode { mode: mode.to_owned(), why }
}

fn kv_ceiling(runner: &Runner) -> KvCeiling {
    let blocks = u64::from(runner.sequences.n_blocks());
    KvCeiling {
        blocks,
        // All of it is made by the load.
        most_blocks: blocks,
        block_bytes: KvPool::bytes(&runner.plan.kv, 1),
        limited_by: format!("{} sequences of {} positions", runner.max_seqs(), runner.ctx),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
