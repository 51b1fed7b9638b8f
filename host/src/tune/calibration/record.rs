//! What was measured, and what it holds for.

use std::collections::BTreeMap;
use std::fmt;

use cajeta_plugin_host::{Device, printable};
use serde::{Deserialize, Serialize};

use super::fact::CalibrationFact;
use crate::record::{Calibration, Record};

/// The form of a record. A host reads records of its own form alone: what another form's numbers mean, it
/// cannot know.
pub(super) const SCHEMA: u32 = 1;
/// Characters of a text of a record that are kept.
const TEXT_MAX: usize = 300;

/// What a driver, a plugin or a file says, as it is printed.
fn text(words: &str) -> String {
    printable::line(words, TEXT_MAX)
}

/// What a calibration holds for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
            let compiler = text(manifest.compiler.as_str());
            (!compiler.is_empty()).then_some(compiler)
        });
        CalibrationKey {
            backend: backend.id().to_owned(),
            device: text(&format!("{} {}", facts.name, facts.target)),
            driver: text(facts.driver.as_str()),
            compiler: compiler.unwrap_or_default(),
            power_mode: text(facts.power_mode.as_str()),
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
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Its value, in the unit the fact's name says.
    pub value: f64,
    /// What it was measured with: a row and its problem.
    pub by: String,
}

/// A device's calibration.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CalibrationRecord {
    /// Its form: [`SCHEMA`].
    pub schema: u32,
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
            schema: SCHEMA,
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

    /// The record as it may be used: of this form, every value one a device can have, every text fit for a
    /// terminal. Or what is wrong with it.
    pub(super) fn checked(mut self) -> Result<CalibrationRecord, String> {
        if self.schema != SCHEMA {
            return Err(format!("schema {} is not known; this host reads schema {SCHEMA}", self.schema));
        }
        for (fact, measured) in &mut self.facts {
            let plausible = fact.plausible();
            if !plausible.contains(&measured.value) {
                let (value, least, most) = (measured.value, plausible.start(), plausible.end());
                return Err(format!("{fact} is {value:e}, expected {least:e} to {most:e}"));
            }
            measured.by = text(&measured.by);
        }
        if let Some((fact, _)) = self.absent.iter().find(|(fact, _)| self.facts.contains_key(fact)) {
            return Err(format!("{fact} is both measured and absent"));
        }
        self.absent.values_mut().for_each(|why| *why = text(why));
        Ok(self)
    }

    /// Takes in what a measurement came to. A value that no device can have was not measured.
    pub(super) fn put(&mut self, fact: CalibrationFact, outcome: Result<Measured, String>) {
        let outcome = outcome.and_then(|measured| match measured.value {
            value if fact.plausible().contains(&value) => Ok(measured),
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
