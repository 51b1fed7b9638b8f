//! All there is to check, as units that run one by one.

use cajeta_plugin_host::{Device, Queue};
use serde::{Deserialize, Serialize};

use crate::claims::{self, CLAIMS, Claim};
use crate::conduct::{self, CONDUCTS, Conduct};
use crate::options::Options;
use crate::report::{CheckResult, Finding, Outcome, Report, RowResult};
use crate::rows;

/// One thing to check.
#[derive(Clone, Copy)]
enum Unit {
    /// A row by its index.
    Row(usize),
    Claim(&'static Claim),
    Conduct(&'static Conduct),
}

/// What a unit is called in a report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Name {
    Row(String),
    Check(String),
}

impl Name {
    /// The finding that it failed.
    pub(crate) fn failed(&self, why: String) -> Finding {
        let outcome = Outcome::Failed(why);
        match self.clone() {
            Name::Row(row) => Finding::Row(RowResult { row, cases: 0, worst_error: 0.0, outcome }),
            Name::Check(check) => Finding::Check(CheckResult { check, outcome }),
        }
    }
}

/// The checks of a device.
pub struct Suite<'a> {
    device: &'a Device,
    options: &'a Options,
    units: Vec<Unit>,
    /// Made for the first row.
    queue: Option<Queue>,
}

impl<'a> Suite<'a> {
    /// Everything `options` asks for. With a filter the calls are not checked.
    pub fn new(device: &'a Device, options: &'a Options) -> Suite<'a> {
        let wanted = |name: &str| options.filter.as_ref().is_none_or(|part| name.contains(part.as_str()));
        let rows = device.backend().rows().iter().enumerate();
        let rows = rows.filter(|(_, row)| wanted(row.name.as_str())).map(|(index, _)| Unit::Row(index));
        let conducts = CONDUCTS.iter().filter(|_| options.filter.is_none());
        let units = rows.chain(CLAIMS.iter().map(Unit::Claim)).chain(conducts.map(Unit::Conduct)).collect();
        Suite { device, options, units, queue: None }
    }

    /// A report of nothing yet.
    pub fn report(&self) -> Report {
        let backend = self.device.backend();
        Report {
            backend: backend.id().to_owned(),
            version: backend.version().to_owned(),
            device: cajeta_plugin_host::printable::line(self.device.facts().name.as_str(), 124),
            seed: self.options.seed,
            rows: Vec::new(),
            checks: Vec::new(),
        }
    }

    /// How many units there are.
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Whether there is nothing to check.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// The names of the units.
    pub(crate) fn names(&self) -> Vec<Name> {
        let rows = self.device.backend().rows();
        let name = |unit: &Unit| match *unit {
            Unit::Row(index) => {
                Name::Row(rows.get(index).map(|row| row.name.to_string()).unwrap_or_default())
            }
            Unit::Claim(&(check, _)) => Name::Check(check.to_owned()),
            Unit::Conduct(&(check, _)) => Name::Check(check.to_owned()),
        };
        self.units.iter().map(name).collect()
    }

    /// Runs a unit; `begins` hears of each case of a row before it runs. `None` past the last.
    pub fn run(&mut self, unit: usize, begins: &mut dyn FnMut(&str)) -> Option<Finding> {
        Some(match *self.units.get(unit)? {
            Unit::Claim(claim) => Finding::Check(claims::check(self.device, claim)),
            Unit::Conduct(check) => Finding::Check(conduct::check(self.device, self.options.seed, check)),
            Unit::Row(index) => {
                if self.queue.is_none() {
                    match self.device.queue() {
                        Ok(queue) => self.queue = Some(queue),
                        Err(error) => return Some(self.names().get(unit)?.failed(error.to_string())),
                    }
                }
                let queue = self.queue.as_mut()?;
                Finding::Row(rows::check(self.device, index, self.options, queue, begins))
            }
        })
    }
}
