//! The registry of an opened device, with its capability answers remembered.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use cajeta_abi::{Capability, FormatId, Geometry, Layout, LayoutId, Problem, Row, Shape};
use cajeta_plugin_host::Device;

use crate::route::rows::{RowPreference, RowRoute};
use crate::route::usable::KernelCap;
use crate::route::{Origin, Registry};
use crate::tune::{Answers, Tuning};

/// A device as routing sees it.
pub struct DeviceRegistry {
    device: Device,
    supported: RefCell<HashMap<Capability, bool>>,
    kernels: Arc<KernelCap>,
    /// What was found before anything was resident.
    premises: Answers,
    answers: Answers,
    /// Rows that somebody chose others of their families over.
    overridden: BTreeSet<String>,
}

impl DeviceRegistry {
    /// The registry of a device.
    pub fn new(device: Device) -> DeviceRegistry {
        let kernels = KernelCap::of(&device);
        DeviceRegistry {
            device,
            supported: RefCell::new(HashMap::new()),
            kernels,
            premises: Answers::default(),
            answers: Answers::default(),
            overridden: BTreeSet::new(),
        }
    }

    /// The registry of the same device, with nothing settled but what was found before weights were made
    /// resident.
    pub fn apart(&self) -> DeviceRegistry {
        let mut apart = DeviceRegistry::new(self.device.clone());
        apart.overridden.clone_from(&self.overridden);
        apart.assume(self.premises.clone());
        apart
    }

    /// Takes over which rows somebody chose, and which step aside for them.
    pub fn obey(&mut self, tuning: &Tuning) {
        let backend = self.device.backend();
        self.overridden = tuning.passed_over(backend.rows());
        for index in tuning.chosen(backend.rows()) {
            let route =
                backend.rows().get(index).and_then(|row| RowRoute::new(index, row, backend.layouts()));
            if let Some((_, route)) = route {
                self.premises.put_chosen(route);
                self.answers.put_chosen(route);
            }
        }
    }

    /// Takes over what was found before weights were made resident. It holds whatever is settled later.
    pub fn assume(&mut self, premises: Answers) {
        self.answers.merge(premises.clone());
        self.premises.merge(premises);
    }

    /// Takes over what was measured, in place of what was settled before; whatever is lowered from here
    /// on goes by it.
    pub fn settle(&mut self, answers: Answers) {
        self.answers = self.premises.clone();
        self.answers.merge(answers);
    }

    /// What was found before weights were made resident.
    pub fn premises(&self) -> &Answers {
        &self.premises
    }

    /// What was measured.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl Registry for DeviceRegistry {
    fn rows(&self) -> &[Row] {
        self.device.backend().rows()
    }

    fn layouts(&self) -> &[Layout] {
        self.device.backend().layouts()
    }

    fn supports(&self, capability: Capability) -> bool {
        // A device that cannot answer cannot be relied on to have it.
        let ask = || self.device.supports(capability).unwrap_or(false);
        *self.supported.borrow_mut().entry(capability).or_insert_with(ask)
    }

    fn unusable(&self, row: &str) -> Option<&str> {
        self.kernels.unusable(row)
    }

    fn overridden(&self, row: &str) -> bool {
        self.overridden.contains(row)
    }

    fn preference(&self) -> &RowPreference<'_> {
        &self.answers
    }

    fn launch_each(&self, format: FormatId, sequences: u64) -> Option<Origin> {
        self.answers.launch_each(format, sequences)
    }

    fn attention_parts(&self, geometry: &Geometry) -> u32 {
        let fewest = geometry.split_min.max(1);
        let times = self.answers.parts().unwrap_or(1);
        fewest.saturating_mul(times).min(geometry.split_max).max(fewest)
    }

    fn geometry(&self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<Geometry, String> {
        let facts = self.device.facts();
        self.device.backend().geometry(row, facts, problem, scalars).map_err(|error| error.to_string())
    }

    fn layout_bytes(&self, layout: LayoutId, shapes: &[Shape]) -> Result<u64, String> {
        self.device.backend().layout_bytes(layout, shapes).map_err(|error| error.to_string())
    }
}
