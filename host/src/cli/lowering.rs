//! A model lowered for the selected device without loading its weights: to say what would run.

use std::collections::BTreeSet;

use cajeta::engine::{DEFAULT_CONTEXT, DeviceRegistry};
use cajeta::kv::KvPool;
use cajeta::lower::{self, LowerError, Program, Segment, Sizes, WeightKey};
use cajeta::route::Registry;
use cajeta_abi::Capability;
use cajeta_catalog::kv::BLOCK_POSITIONS;
use cajeta_catalog::state::StepLayout;
use cajeta_model_arch::plan::Plan;
use cajeta_plugin_host::{Device, SelectOptions, activate};
use serde::Serialize;

use super::failure::Outcome;

/// Opens the device an engine would take.
pub(crate) fn open(select: &SelectOptions) -> Outcome<Device> {
    Ok(activate(select)?.open()?)
}

/// Memory that a model takes.
#[derive(Serialize, Clone, Copy, Default, Debug)]
pub(crate) struct Needs {
    /// Positions of the cache.
    pub(crate) context: u32,
    /// Weights read where the file is mapped; they take no memory of their own.
    pub(crate) mapped_bytes: u64,
    /// Weights on the device.
    pub(crate) weight_bytes: u64,
    /// The K/V cache.
    pub(crate) kv_bytes: u64,
    /// Work space of the largest step.
    pub(crate) work_bytes: u64,
}

impl Needs {
    /// Bytes of device memory.
    pub(crate) fn total(&self) -> u64 {
        self.weight_bytes.saturating_add(self.kv_bytes).saturating_add(self.work_bytes)
    }
}

/// A plan on a device, with every weight layout it would wish for.
pub(crate) struct Lowering<'a> {
    pub(crate) registry: DeviceRegistry,
    pub(crate) plan: &'a Plan,
    /// Positions of the cache.
    pub(crate) ctx: u32,
    /// Rows of a prefill chunk.
    pub(crate) chunk: u32,
    wanted: BTreeSet<WeightKey>,
    work: u64,
}

impl<'a> Lowering<'a> {
    /// Lowers what generating and scoring run.
    pub(crate) fn new(
        device: &Device,
        plan: &'a Plan,
        ctx: u32,
        chunk: u32,
    ) -> Result<Lowering<'a>, LowerError> {
        Lowering::within(device, plan, ctx, chunk, &|_| true)
    }

    /// Lowers it over the file's own blocks alone, as an engine does where other layouts do not fit.
    pub(crate) fn in_file_blocks(
        device: &Device,
        plan: &'a Plan,
        ctx: u32,
        chunk: u32,
    ) -> Result<Lowering<'a>, LowerError> {
        Lowering::within(device, plan, ctx, chunk, &WeightKey::is_file)
    }

    fn within(
        device: &Device,
        plan: &'a Plan,
        ctx: u32,
        chunk: u32,
        allowed: &dyn Fn(&WeightKey) -> bool,
    ) -> Result<Lowering<'a>, LowerError> {
        let registry = DeviceRegistry::new(device.clone());
        let mut lowering = Lowering { registry, plan, ctx, chunk, wanted: BTreeSet::new(), work: 0 };
        for (segment, rows, out_rows) in lowering.segments() {
            let sizes = lowering.sizes(rows, out_rows);
            let declared = lower::declare(&lowering.registry, plan, segment, &sizes, allowed)?;
            lowering.wanted.extend(declared);
        }
        for (segment, rows, out_rows) in lowering.segments() {
            let program = lowering.program(segment, rows, out_rows)?;
            lowering.work = lowering.work.max(program.arena + program.scratch + program.semaphores);
        }
        Ok(lowering)
    }

    fn segments(&self) -> [(Segment, u32, u32); 4] {
        let chunk = self.chunk;
        [
            (Segment::Step, 1, 1),
            (Segment::Body, chunk, 1),
            (Segment::TailToken, chunk, 1),
            (Segment::Tail, chunk, chunk),
        ]
    }

    fn sizes(&self, rows: u32, out_rows: u32) -> Sizes {
        let max_blocks = self.ctx.div_ceil(BLOCK_POSITIONS);
        let state = StepLayout { max_rows: self.chunk, max_seqs: 1, max_blocks };
        Sizes { rows, out_rows, seqs: 1, context: self.ctx, state }
    }

    /// One segment.
    pub(crate) fn program(&self, segment: Segment, rows: u32, out_rows: u32) -> Result<Program, LowerError> {
        let sizes = self.sizes(rows, out_rows);
        lower::lower(&self.registry, self.plan, segment, &sizes, &|key| self.wanted.contains(key))
    }

    /// How the rows of one segment were chosen, launch by launch.
    pub(crate) fn explain(
        &self,
        segment: Segment,
        rows: u32,
        out_rows: u32,
    ) -> Result<Vec<lower::Explained>, LowerError> {
        let sizes = self.sizes(rows, out_rows);
        lower::explain(&self.registry, self.plan, segment, &sizes, &|key| self.wanted.contains(key))
    }

    /// What it takes.
    pub(crate) fn needs(&self) -> Result<Needs, LowerError> {
        let in_place = self.registry.supports(Capability::IMPORT);
        let mut needs = Needs { context: self.ctx, work_bytes: self.work, ..Needs::default() };
        for key in &self.wanted {
            let bytes = lower::weight_bytes(&self.registry, self.plan, key)
                .map_err(|text| LowerError::Backend { what: "the size of a weight".into(), text })?;
            let home =
                if in_place && key.is_file() { &mut needs.mapped_bytes } else { &mut needs.weight_bytes };
            *home = home.saturating_add(bytes);
        }
        needs.kv_bytes = KvPool::bytes(&self.plan.kv, self.ctx.div_ceil(BLOCK_POSITIONS));
        Ok(needs)
    }
}

/// The context a model gets when nobody asks for another.
pub(crate) fn usual_context(n_ctx_train: u32) -> u32 {
    n_ctx_train.min(DEFAULT_CONTEXT)
}
