//! Settles, before anything is decoded, what a model's launches ask.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use cajeta_abi::{Problem, Row};
use cajeta_catalog::op::Op;
use cajeta_plugin_host::{Device, DeviceError};

use super::answers::Answers;
use super::bench::RowProbe;
use super::choice::ShapeChoice;
use super::columns::{Columns, LargestWeights};
use super::error::TuneError;
use super::family::{KernelSource, TileFamily, Usable, gates_hold};
use super::placed::{Forms, InPlace, Parts};
use super::probes;
use super::site::Site;
use super::tuning::{Hold, Tuning};
use crate::route::rows::RowRoute;

/// Settles questions of one device, each once.
pub struct Prewarm<'a> {
    tuning: &'a Tuning,
    device: &'a Device,
    usable: &'a Usable<'a>,
    probe: RowProbe,
    answers: Answers,
    /// By row, problem and scalars.
    seen: BTreeSet<(usize, [u64; 3], Vec<u8>)>,
    largest: LargestWeights,
    /// Whether one launch over several sequences pays. Apart from the other answers: a step is lowered as
    /// if it did until each number of sequences was asked about.
    columns: Answers,
    /// When to stop timing; what is remembered still answers.
    until: Option<Instant>,
}

impl<'a> Prewarm<'a> {
    /// A prewarm that has settled nothing yet.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn new(
        tuning: &'a Tuning,
        device: &'a Device,
        usable: &'a Usable<'a>,
    ) -> Result<Prewarm<'a>, DeviceError> {
        let probe = RowProbe::new(device)?;
        Ok(Prewarm {
            tuning,
            device,
            usable,
            probe,
            answers: Answers::default(),
            seen: BTreeSet::new(),
            largest: LargestWeights::default(),
            columns: Answers::default(),
            until: None,
        })
    }

    /// Begins with what is settled already.
    #[must_use]
    pub fn knowing(mut self, answers: Answers) -> Prewarm<'a> {
        self.answers = answers;
        self
    }

    /// What is settled so far.
    pub fn answers(&self) -> &Answers {
        &self.answers
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
    /// fusion, whether it beats its parts. `site` has the launches in the place where a model runs them. A
    /// launch that asks nothing, or was settled before, costs nothing; what cannot be timed stays as
    /// declared.
    ///
    /// # Errors
    /// When the device is lost, or no member of the family can be launched.
    pub fn launch(
        &mut self,
        row: usize,
        problem: &Problem,
        scalars: &[u8],
        site: &mut dyn Site,
    ) -> Result<(), TuneError> {
        let rows = self.device.backend().rows();
        let Some(lead) = rows.get(row) else { return Ok(()) };
        for largest in self.largest.pass(row, lead, problem, scalars) {
            let _hold = self.hold();
            let usable = self.usable;
            let mut columns = Columns {
                tuning: self.tuning,
                device: self.device,
                admits: &|row: &Row, problem: &Problem, scalars: &[u8]| {
                    usable(row) && gates_hold(row, problem, scalars)
                },
                probe: &mut self.probe,
                answers: &mut self.answers,
                found: &mut self.columns,
            };
            columns.ask(&largest, site)?;
        }
        let problem_of = [problem.m, problem.n, problem.k];
        if !self.seen.insert((row, problem_of, scalars.to_vec())) {
            return Ok(());
        }
        let Some((_, route)) = RowRoute::new(row, lead, self.device.backend().layouts()) else {
            return Ok(());
        };
        let _hold = self.hold();
        let family = TileFamily::of_row(rows, row, &|other| self.admits(other, problem, scalars));
        let mut serving = row;
        // Whoever of them serves when it is lowered again asks the same.
        self.seen.extend(family.members.iter().map(|&member| (member, problem_of, scalars.to_vec())));
        if !lead.family.is_empty() && family.members.len() > 1 {
            let choice = ShapeChoice::new(self.tuning, self.device, self.device.facts());
            let mut probe = InPlace { probe: &mut self.probe, site, row };
            let answer = choice.choose(&family, problem, scalars, &mut probe)?;
            serving = answer.row;
            let name = rows.get(serving).map_or("", |row| row.name.as_str());
            self.answers.put_member(&route, problem, scalars, name, answer.answered);
        }
        if lead.steps.iter().all(|step| step.op == Op::Attention.id()) {
            self.parts([row, serving], problem, scalars, site)?;
        }
        if lead.steps.len() > 1 {
            self.fusion(&family, serving, problem, scalars, site)?;
        }
        Ok(())
    }

    /// What was settled.
    pub fn finish(mut self) -> Answers {
        self.answers.merge(self.columns);
        self.answers
    }

    /// In how many parts attention is computed, by the first that leaves a choice: of the row that a step
    /// has in place, and the one that is to serve there.
    fn parts(
        &mut self,
        [placed, row]: [usize; 2],
        problem: &Problem,
        scalars: &[u8],
        site: &mut dyn Site,
    ) -> Result<(), TuneError> {
        let Ok(geometry) = self.device.geometry(row, problem, scalars) else { return Ok(()) };
        if self.answers.parts().is_some() || probes::part_wgs::multiples(&geometry).len() < 2 {
            return Ok(());
        }
        let mut arms = Parts {
            device: self.device,
            probe: &mut self.probe,
            site,
            placed,
            asked: (row, *problem, scalars),
        };
        if let Some(times) = probes::part_wgs::settle(self.tuning, &geometry, &mut arms)? {
            self.answers.put_parts(times);
        }
        Ok(())
    }

    /// Whether the fusion that serves beats its parts. Where it does not, no other member of its family
    /// is to serve in its stead.
    fn fusion(
        &mut self,
        family: &TileFamily,
        row: usize,
        problem: &Problem,
        scalars: &[u8],
        site: &mut dyn Site,
    ) -> Result<(), TuneError> {
        let backend = self.device.backend();
        let rows = backend.rows();
        let admits = |row: &Row, problem: &Problem, scalars: &[u8]| self.admits(row, problem, scalars);
        let Some(parts) = probes::fused::parts(rows, row, problem, scalars, &admits) else { return Ok(()) };
        let whole = probes::fused::Part { row, problem: *problem, scalars: scalars.to_vec() };
        let members: Vec<RowRoute<'_>> = family
            .members
            .iter()
            .filter_map(|&index| RowRoute::new(index, rows.get(index)?, backend.layouts()))
            .map(|(_, route)| route)
            .collect();
        let answered = |pays| {
            let mut answers = self.answers.clone();
            members.iter().for_each(|member| answers.put_fusion(member, problem, pays));
            answers
        };
        let mut arms = Forms {
            site,
            trial: [answered(true), answered(false)],
            arms: probes::fused::DeviceArms::new(self.device, &mut self.probe, whole, &parts),
            asked: (row, *problem, scalars),
        };
        if let Some(found) = probes::fused::settle(self.tuning, rows, row, problem, &parts, &mut arms)? {
            members.iter().for_each(|member| self.answers.put_found(member, problem, &found));
        }
        Ok(())
    }

    /// Whether the device can run a row at a problem, and it is not known to answer wrong.
    fn admits(&self, row: &Row, problem: &Problem, scalars: &[u8]) -> bool {
        let right = !self.answers.is_wrong(row.name.as_str());
        right && (self.usable)(row) && gates_hold(row, problem, scalars)
    }
}
