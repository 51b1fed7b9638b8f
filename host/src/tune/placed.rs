//! Probes over launches in place, which are looked for only when something is timed.

use cajeta_abi::Problem;
use cajeta_plugin_host::Device;

use super::answers::Answers;
use super::bench::RowProbe;
use super::choice::FamilyProbe;
use super::error::TuneError;
use super::family::KernelSource;
use super::probes;
use super::site::{Segments, Site};
use super::tuning::Timed;

/// Times members of a family in place, which is looked for only if they are timed at all.
pub(super) struct InPlace<'a> {
    pub(super) probe: &'a mut RowProbe,
    pub(super) site: &'a mut dyn Site,
    /// The row that a step has there.
    pub(super) row: usize,
}

impl FamilyProbe for InPlace<'_> {
    fn time(&mut self, rows: &[usize], problem: &Problem, scalars: &[u8]) -> Result<Timed, TuneError> {
        let sets = self.site.sets(self.row, problem, scalars)?;
        self.probe.placed(sets, self.site.step_bytes()).time(rows, problem, scalars)
    }
}

/// Likewise of the parts of an attention.
pub(super) struct Parts<'a> {
    pub(super) device: &'a Device,
    pub(super) probe: &'a mut RowProbe,
    pub(super) site: &'a mut dyn Site,
    /// The row that a step has there.
    pub(super) placed: usize,
    pub(super) asked: (usize, Problem, &'a [u8]),
}

impl probes::part_wgs::Arms for Parts<'_> {
    fn code(&self) -> Option<[u8; 32]> {
        self.device.code_hash(self.asked.0)
    }

    fn time(&mut self, parts: &[u32]) -> Result<Timed, TuneError> {
        let (row, problem, scalars) = self.asked;
        let sets = self.site.sets(self.placed, &problem, scalars)?;
        self.probe.placed(sets, self.site.step_bytes()).parts(row, &problem, scalars, parts)
    }
}

/// Likewise of a fusion and its parts.
pub(super) struct Forms<'a> {
    pub(super) site: &'a mut dyn Site,
    /// What a step goes by when it is fused, and when it is not.
    pub(super) trial: [Answers; 2],
    pub(super) arms: probes::fused::DeviceArms<'a>,
    pub(super) asked: (usize, Problem, &'a [u8]),
}

impl probes::fused::Arms for Forms<'_> {
    fn code(&self, row: usize) -> Option<[u8; 32]> {
        self.arms.code(row)
    }

    fn time(&mut self) -> Result<Timed, TuneError> {
        let (row, problem, scalars) = self.asked;
        if let Some(forms) = self.site.forms(row, &problem, scalars, &self.trial)?
            && let Ok(forms) = <[Segments; 2]>::try_from(forms)
        {
            let rows = |form: &Segments| form.iter().flatten().map(|spec| spec.row).collect::<Vec<usize>>();
            // A fusion that is held back serves all the same where its parts cannot.
            if rows(&forms[0]) == rows(&forms[1]) {
                let why = "its parts have no weights as they read them".to_owned();
                return Err(TuneError::Untimed { what: "a fusion in its place".to_owned(), why });
            }
            self.arms.set_in_place(forms, self.site.step_bytes());
        }
        self.arms.time()
    }
}
