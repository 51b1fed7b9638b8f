//! Chooses one backend: in a fixed order, among those that are allowed, the first that works.

mod order;
mod restriction;
mod explanation;
mod error;
mod attempt;
mod registries;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::candidate::Outcome;
use crate::device::{Backend, Device, DeviceError};
use crate::discover::discover;
use crate::probe::ProbeOptions;
use crate::search::SearchOptions;

pub use error::SelectError;
pub use explanation::Explanation;
pub use registries::{Installed, registries};
pub use restriction::{BACKEND_VARIABLE, Restriction};

/// What a selection depends on. Programs take [`SelectOptions::of_process`] and change what their
/// own options say.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelectOptions {
    /// Where plugins are looked for.
    pub search: SearchOptions,
    /// How they are probed.
    pub probe: ProbeOptions,
    /// One backend by name. Comes before the variable, and wins over it.
    pub force: Option<String>,
    /// Value of `CAJETA_XPU_BACKEND`.
    pub variable: Option<OsString>,
    /// A device by its position. `None`: the first that is not a software device.
    pub device: Option<u32>,
}

impl SelectOptions {
    /// The options of this process; `configured` is `plugin_paths` of `cajeta.toml`.
    pub fn of_process(configured: Vec<PathBuf>) -> SelectOptions {
        SelectOptions {
            search: SearchOptions::of_process(configured),
            probe: ProbeOptions::of_process(),
            force: None,
            variable: std::env::var_os(BACKEND_VARIABLE),
            device: None,
        }
    }
}

/// A chosen backend.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The backend, open and probed in this process.
    pub backend: Backend,
    /// The chosen device of it.
    pub device: u32,
    /// Every candidate and what became of it.
    pub explanation: Explanation,
}

impl Selected {
    /// Opens the chosen device.
    ///
    /// # Errors
    /// Whatever the plugin answers.
    pub fn open(&self) -> Result<Device, DeviceError> {
        self.backend.open(self.device)
    }
}

/// Chooses a backend: probes the allowed candidates in order and stops at the first that works.
///
/// The order is fixed; a restriction filters it and never reorders it. Backends outside the order
/// follow by name, and only when named. There is no fallback outside what is allowed.
///
/// # Errors
/// The restriction cannot be read, or nothing it allows works; the error lists the stage and reason
/// of every allowed candidate and the folders that were searched.
pub fn select(options: &SelectOptions) -> Result<Selected, SelectError> {
    let restriction = Restriction::read(options)?;
    let mut explanation = Explanation::new(discover(&options.search), restriction.clone());
    let plan = order::plan(&explanation.candidates, &restriction);
    let mut chosen = None;
    for (index, candidate) in explanation.candidates.iter_mut().enumerate() {
        if let (Outcome::NotTried { reason }, false) = (&mut candidate.outcome, plan.contains(&index)) {
            *reason = restriction.why_not(&candidate.id);
        }
    }
    for &index in &plan {
        let candidate = &mut explanation.candidates[index];
        if let Some((id, _, _)) = &chosen {
            if let Outcome::NotTried { reason } = &mut candidate.outcome {
                *reason = format!("`{id}` works and comes first");
            }
            continue;
        }
        attempt::probe(candidate, &options.probe);
        if let Some(device) = attempt::choose_device(candidate, &restriction, options.device)
            && let Some(backend) = attempt::open(candidate, device)
        {
            chosen = Some((candidate.id.clone(), backend, device));
        }
    }
    match chosen {
        Some((id, backend, device)) => {
            explanation.chosen = Some(id);
            Ok(Selected { backend, device, explanation })
        }
        None => Err(SelectError::NoneUsable { explanation: Box::new(explanation) }),
    }
}

/// Probes every candidate and says what [`select`] would choose, opening nothing in this process.
///
/// # Errors
/// The restriction cannot be read.
pub fn explain(options: &SelectOptions) -> Result<Explanation, SelectError> {
    let restriction = Restriction::read(options)?;
    let mut explanation = Explanation::new(discover(&options.search), restriction.clone());
    for candidate in &mut explanation.candidates {
        attempt::probe(candidate, &options.probe);
    }
    let plan = order::plan(&explanation.candidates, &restriction);
    for (index, candidate) in explanation.candidates.iter_mut().enumerate() {
        if !candidate.is_usable() {
            continue;
        }
        if !plan.contains(&index) {
            candidate.policy = restriction.why_not(&candidate.id);
        }
    }
    for index in plan {
        let candidate = &mut explanation.candidates[index];
        let suits = attempt::choose_device(candidate, &restriction, options.device).is_some();
        if suits && explanation.chosen.is_none() {
            explanation.chosen = Some(candidate.id.clone());
        }
    }
    Ok(explanation)
}

static ACTIVE: OnceLock<Selected> = OnceLock::new();
static ACTIVATING: Mutex<()> = Mutex::new(());

/// The backend of this process: chosen once, by the first caller's options.
///
/// # Errors
/// As [`select`]; also when another backend is active and the options force one by name.
pub fn activate(options: &SelectOptions) -> Result<&'static Selected, SelectError> {
    let _one_at_a_time = ACTIVATING.lock().unwrap_or_else(PoisonError::into_inner);
    let active = match ACTIVE.get() {
        Some(active) => active,
        None => {
            let selected = select(options)?;
            ACTIVE.get_or_init(|| selected)
        }
    };
    match &options.force {
        Some(name) if *name != active.backend.id() => Err(SelectError::AlreadyActive {
            active: active.backend.id().to_owned(),
            asked: crate::printable::line(name, 64),
        }),
        _ => Ok(active),
    }
}

/// The backend of this process, if one is active.
pub fn active_backend() -> Option<&'static Selected> {
    ACTIVE.get()
}
