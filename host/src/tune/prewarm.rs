//! Settles, before anything is decoded, what a model's launches ask.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cajeta_abi::{Capability, FormatId, Problem, Row};
use cajeta_plugin_host::{BufferSpan, Device, DeviceError};

use super::answers::Answers;
use super::bench::{RowProbe, plain_scalars};
use super::choice::ShapeChoice;
use super::error::TuneError;
use super::family::{TileFamily, gates_hold};
use super::probes::{self, once};
use super::tuning::{Hold, Tuning};
use crate::route::rows::RowRoute;

/// Settles questions of one device, each once.
pub struct Prewarm<'a> {
    tuning: &'a Tuning,
    device: &'a Device,
    supports: &'a dyn Fn(Capability) -> bool,
    probe: RowProbe,
    answers: Answers,
    seen: BTreeSet<(usize, [u64; 3])>,
    /// When to stop timing; what is remembered still answers.
    until: Option<Instant>,
}

/// Spans that stand for arguments of a launch: resident weights.
pub type Given<'a> = dyn Fn(usize) -> Option<BufferSpan> + 'a;

impl<'a> Prewarm<'a> {
    /// A prewarm that has settled nothing yet. `supports` answers for the device's capabilities.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn new(
        tuning: &'a Tuning,
        device: &'a Device,
        supports: &'a dyn Fn(Capability) -> bool,
    ) -> Result<Prewarm<'a>, DeviceError> {
        let probe = RowProbe::new(device)?;
        Ok(Prewarm {
            tuning,
            device,
            supports,
            probe,
            answers: Answers::default(),
            seen: BTreeSet::new(),
            until: None,
        })
    }

    /// Stops timing after `budget`: what is not settled by then stays as declared, and is asked again by
    /// the next load. What is remembered answers all the same.
    #[must_use]
    pub fn within(mut self, budget: Duration) -> Prewarm<'a> {
        self.until = Instant::now().checked_add(budget);
        self
    }

    /// Holds the trial once the budget is spent.
    fn hold(&self) -> Option<Hold<'a>> {
        let spent = self.until.is_some_and(|until| Instant::now() >= until);
        spent.then(|| self.tuning.hold())
    }

    /// Settles what one launch of a lowered program asks: which member of its family serves and, for a
    /// fusion, whether it beats its parts. `given` provides resident weights by argument. A launch that
    /// asks nothing, or was settled before, costs nothing; what cannot be timed stays as declared.
    ///
    /// # Errors
    /// When the device is lost, or no member of the family can be launched.
    pub fn launch(
        &mut self,
        row: usize,
        problem: &Problem,
        scalars: &[u8],
        given: &Given<'_>,
    ) -> Result<(), TuneError> {
        let rows = self.device.backend().rows();
        let Some(lead) = rows.get(row) else { return Ok(()) };
        if !self.seen.insert((row, [problem.m, problem.n, problem.k])) {
            return Ok(());
        }
        let Some((_, route)) = RowRoute::new(row, lead, self.device.backend().layouts()) else {
            return Ok(());
        };
        let _hold = self.hold();
        let family = TileFamily::of_row(rows, row, &|other| self.admits(other, problem, scalars));
        let mut serving = row;
        if !lead.family.is_empty() && family.members.len() > 1 {
            let choice = ShapeChoice::new(self.tuning, self.device, self.device.facts());
            let mut probe = self.probe.with(given);
            let answer = choice.choose(&family, problem, scalars, &mut probe)?;
            serving = answer.row;
            let name = rows.get(serving).map_or("", |row| row.name.as_str());
            self.answers.put_member(&route, problem, name, answer.answered);
        }
        if lead.steps.len() > 1 {
            self.fusion(serving, problem, scalars)?;
        }
        Ok(())
    }

    /// Settles whether one launch over `columns` sequences pays for a format, at a weight of so many
    /// rows and columns.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn cols(&mut self, format: FormatId, columns: u64, rows: u64, cols: u64) -> Result<(), TuneError> {
        let admits = |row: &Row, problem: &Problem| {
            plain_scalars(row).is_ok_and(|scalars| self.admits(row, problem, &scalars))
        };
        let asked = probes::cols::Asked { format, columns, n: rows, k: cols };
        let Some(pair) = probes::cols::pair(self.device.backend().rows(), &asked, &admits) else {
            return Ok(());
        };
        let _hold = self.hold();
        let mut arms = probes::cols::DeviceArms::new(self.device, &mut self.probe, pair);
        if let Some(pays) = probes::cols::settle(self.tuning, &mut arms, &pair)? {
            self.answers.put_cols(format, columns, pays);
        }
        Ok(())
    }

    /// Settles once per process whether matrix cores pay, at a product of a format. Without rows of both
    /// kinds there is nothing to settle.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn matrix_cores(&mut self, format: FormatId, problem: &Problem) -> Result<(), TuneError> {
        let rows = self.device.backend().rows();
        let admits = |row: &Row| plain_scalars(row).is_ok_and(|scalars| self.admits(row, problem, &scalars));
        let Some(rivals) = once::matrix_rivals(rows, format, &admits) else { return Ok(()) };
        let _hold = self.hold();
        let name = once::MATRIX_CORES_PAY;
        if let Some(pays) = once::settle(self.tuning, name, rows, rivals, problem, &mut self.probe)? {
            self.answers.put_matrix_cores(rows, pays);
        }
        Ok(())
    }

    /// What was settled.
    pub fn finish(self) -> Answers {
        self.answers
    }

    fn fusion(&mut self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<(), TuneError> {
        let backend = self.device.backend();
        let rows = backend.rows();
        let admits = |row: &Row, problem: &Problem, scalars: &[u8]| self.admits(row, problem, scalars);
        let Some(parts) = probes::fused::parts(rows, row, problem, scalars, &admits) else { return Ok(()) };
        let whole = probes::fused::Part { row, problem: *problem, scalars: scalars.to_vec() };
        let mut arms = probes::fused::DeviceArms::new(self.device, &mut self.probe, whole, &parts);
        if let Some(pays) = probes::fused::settle(self.tuning, rows, row, problem, &parts, &mut arms)?
            && let Some(lead) = rows.get(row)
            && let Some((_, route)) = RowRoute::new(row, lead, backend.layouts())
        {
            self.answers.put_fusion(&route, problem, pays);
        }
        Ok(())
    }

    fn admits(&self, row: &Row, problem: &Problem, scalars: &[u8]) -> bool {
        row.needs.iter().all(|need| (self.supports)(need.capability)) && gates_hold(row, problem, scalars)
    }
}
