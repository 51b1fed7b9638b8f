//! The probe of rows that take the same arguments, where a model's step has them.

use cajeta_abi::Problem;

use super::row_bench::RowBench;
use super::row_probe::{RowProbe, Specs};
use super::rows_named::rows_named;
use crate::tune::site::{ArgSet, Footing, distinct_bytes};
use crate::tune::{FamilyProbe, Timed, TuneError};

/// A [`RowProbe`] of launches that are in place.
pub struct PlacedProbe<'a> {
    probe: &'a mut RowProbe,
    sets: Vec<ArgSet>,
    step_bytes: u64,
}

impl RowProbe {
    /// The probe of launches that take one of these sets of arguments after the other, in a model whose step
    /// reads so many bytes of weights. Without sets it makes its own operands.
    pub fn placed(&mut self, sets: Vec<ArgSet>, step_bytes: u64) -> PlacedProbe<'_> {
        PlacedProbe { probe: self, sets, step_bytes }
    }
}

impl PlacedProbe<'_> {
    /// Times a row with its reduction in different numbers of parts.
    ///
    /// # Errors
    /// Whatever keeps it from being launched.
    pub fn parts(
        &mut self,
        row: usize,
        problem: &Problem,
        scalars: &[u8],
        parts: &[u32],
    ) -> Result<Timed, TuneError> {
        let arms: Vec<(String, usize, Option<u32>)> =
            parts.iter().map(|&parts| (parts.to_string(), row, Some(parts))).collect();
        self.compare(&arms, problem, scalars)
    }

    /// Times rows that take the same arguments, each in some number of parts.
    fn compare(
        &mut self,
        arms: &[(String, usize, Option<u32>)],
        problem: &Problem,
        scalars: &[u8],
    ) -> Result<Timed, TuneError> {
        let Some(&(_, first, _)) = arms.first() else { return Ok(Timed::default()) };
        let probe = &mut *self.probe;
        let (bench, footing) = if self.sets.is_empty() {
            let queue = probe.timer.queue().queue();
            let bench = RowBench::new(&probe.device, queue, first, problem, scalars, &|_| None)?;
            queue.finish()?;
            (bench, Footing::NONE)
        } else {
            let distinct = distinct_bytes(self.sets.iter().flatten().flatten());
            let footing = probe.footing(self.sets.len(), distinct, self.step_bytes);
            (RowBench::over(&probe.device, problem, scalars, self.sets.clone())?, footing)
        };
        let bench = &bench;
        let arm = |(name, row, parts): &(String, usize, Option<u32>)| {
            let (row, parts) = (*row, *parts);
            let specs =
                move |Specs(queue): &mut Specs<'_>, times| bench.specs_in_parts(queue, row, times, parts);
            (name.clone(), 1, specs)
        };
        let rows = probe.device.backend().rows();
        let what = || rows_named(rows, arms.iter().map(|&(_, row, _)| (row, *problem)).collect());
        probe.compare(arms.iter().map(arm).collect(), footing, &what)
    }
}

impl FamilyProbe for PlacedProbe<'_> {
    fn time(&mut self, rows: &[usize], problem: &Problem, scalars: &[u8]) -> Result<Timed, TuneError> {
        let known = self.probe.device.backend().rows();
        let name = |row: usize| known.get(row).map(|row| row.name.to_string()).unwrap_or_default();
        let arms: Vec<(String, usize, Option<u32>)> =
            rows.iter().map(|&row| (name(row), row, None)).collect();
        self.compare(&arms, problem, scalars)
    }
}

impl FamilyProbe for RowProbe {
    fn time(&mut self, rows: &[usize], problem: &Problem, scalars: &[u8]) -> Result<Timed, TuneError> {
        self.placed(Vec::new(), 0).time(rows, problem, scalars)
    }
}
