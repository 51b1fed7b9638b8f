//! A model lowered for the selected device without loading its weights: to say what would run.

use cajeta::engine::{Affordable, DEFAULT_CONTEXT, DeviceRegistry, EngineError, Extent};
use cajeta::lower::{self, Explained, LowerError, Program, Segment, Sizes, WeightKey};
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
    /// The memory of an engine over these weights.
    pub(crate) fn of(affordable: &Affordable) -> Needs {
        let need = &affordable.need;
        Needs {
            context: need.ctx,
            mapped_bytes: affordable.mapped,
            weight_bytes: need.weights,
            kv_bytes: need.kv,
            work_bytes: need.work,
        }
    }

    /// Bytes of device memory.
    pub(crate) fn total(&self) -> u64 {
        self.weight_bytes.saturating_add(self.kv_bytes).saturating_add(self.work_bytes)
    }
}

/// A plan on a device, over the weight layouts that an engine of this size would make resident.
pub(crate) struct Lowering<'a> {
    pub(crate) registry: DeviceRegistry,
    pub(crate) plan: &'a Plan,
    pub(crate) extent: Extent,
    affordable: Affordable,
}

impl<'a> Lowering<'a> {
    /// Chooses the layouts, widened copies within a budget. A model that does not fit is shown as it would
    /// run if its own bytes did.
    pub(crate) fn new(
        registry: DeviceRegistry,
        plan: &'a Plan,
        extent: Extent,
        widen_budget: Option<u64>,
    ) -> Result<Lowering<'a>, EngineError> {
        let affordable = Affordable::within(&registry, plan, &extent, widen_budget)?;
        Ok(Lowering { registry, plan, extent, affordable })
    }

    /// One segment.
    pub(crate) fn program(&self, segment: Segment, sizes: &Sizes) -> Result<Program, LowerError> {
        lower::lower(&self.registry, self.plan, segment, sizes, &|key| self.is_resident(key))
    }

    /// How the rows of one segment were chosen, launch by launch.
    pub(crate) fn explain(&self, segment: Segment, sizes: &Sizes) -> Result<Vec<Explained>, LowerError> {
        lower::explain(&self.registry, self.plan, segment, sizes, &|key| self.is_resident(key))
    }

    fn is_resident(&self, key: &WeightKey) -> bool {
        self.affordable.keys.contains(key)
    }
}

/// The context a model gets when nobody asks for another.
pub(crate) fn usual_context(n_ctx_train: u32) -> u32 {
    n_ctx_train.min(DEFAULT_CONTEXT)
}
