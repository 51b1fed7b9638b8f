//! What was measured, and what it holds for.

use std::collections::BTreeMap;
use std::fmt;

use cajeta_plugin_host::Device;
use serde::{Deserialize, Serialize};

use super::fact::CalibrationFact;
use crate::record::{Calibration, Record};

/// What a calibration holds for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CalibrationKey {
    /// The backend.
    pub backend: String,
    /// The device's name and code target.
    pub device: String,
    /// Driver version; empty when there is none.
    pub driver: String,
    /// The compiler of the backend's kernels.
    pub compiler: String,
    /// Power mode; empty when there is one only.
    pub power_mode: String,
}

impl CalibrationKey {
    /// The key of an open device.
    pub fn of(device: &Device) -> CalibrationKey {
        let (backend, facts) = (device.backend(), device.facts());
        let compiler = (0..backend.rows().len()).find_map(|row| {
            let manifest = backend.manifest(row, facts.target.as_str()).ok().flatten()?;
            let compiler = cajeta_plugin_host::printable::line(manifest.compiler.as_str(), 200);
            (!compiler.is_empty()).then_some(compiler)
        });
        CalibrationKey {
            backend: backend.id().to_owned(),
            device: format!("{} {}", facts.name, facts.target),
            driver: facts.driver.to_string(),
            compiler: compiler.unwrap_or_default(),
            power_mode: facts.power_mode.to_string(),
        }
    }
}

impl fmt::Display for CalibrationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.backend, self.device)?;
        let rest = [("driver", &self.driver), ("compiler", &self.compiler), ("power mode", &self.power_mode)];
        for (name, value) in rest.iter().filter(|(_, value)| !value.is_empty()) {
            write!(f, ", {name} {value}")?;
        }
        Ok(())
    }
}

/// One fact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Its value, in the unit the fact's name says.
    pub value: f64,
    /// What it was measured with: a row and its problem.
    pub by: String,
}

/// A device's calibration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CalibrationRecord {
    /// What it holds for.
    pub key: CalibrationKey,
    /// When it was measured, in seconds since 1970.
    pub unix_s: u64,
    /// Percent of the device that others held meanwhile, where that is known.
    pub foreign_load_percent: Option<u64>,
    /// What was measured.
    pub facts: BTreeMap<CalibrationFact, Measured>,
    /// What was not, and why.
    pub absent: BTreeMap<CalibrationFact, String>,
}

impl CalibrationRecord {
    /// A record of nothing yet.
    pub fn new(key: CalibrationKey, unix_s: u64) -> CalibrationRecord {
        CalibrationRecord {
            key,
            unix_s,
            foreign_load_percent: None,
            facts: BTreeMap::new(),
            absent: BTreeMap::new(),
        }
    }

    /// A fact's value, if it was measured.
    pub fn get(&self, fact: CalibrationFact) -> Option<f64> {
        self.facts.get(&fact).map(|measured| measured.value)
    }

    /// Takes in what a measurement came to. A value that is no positive number was not measured.
    pub(super) fn put(&mut self, fact: CalibrationFact, outcome: Result<Measured, String>) {
        let outcome = outcome.and_then(|measured| match measured.value {
            value if value.is_finite() && value >= 0.0 => Ok(measured),
            value => Err(format!("{} came to {value}", measured.by)),
        });
        let (value, by) = match &outcome {
            Ok(measured) => (Some(measured.value), measured.by.clone()),
            Err(why) => (None, why.clone()),
        };
        Record::from(Calibration { fact: fact.label().to_owned(), value, by }).emit();
        match outcome {
            Ok(measured) => {
                self.facts.insert(fact, measured);
            }
            Err(why) => {
                self.absent.insert(fact, why);
            }
        }
    }
}
