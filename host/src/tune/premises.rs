//! Asks what holds for a whole load and has to be known before anything is made resident: whether
//! matrix cores pay, and for which formats widened weights do. Only operands of the questions' own are
//! needed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use cajeta_abi::{FormatId, LayoutId, Problem, Regime, Row};
use cajeta_plugin_host::Device;

use super::answers::Answers;
use super::bench::{RowProbe, plain_scalars};
use super::error::TuneError;
use super::family::{Usable, gates_hold};
use super::probes::once::{self, Arms, Asks, Found, Rivals};
use super::tuning::{Timed, Tuning};
use crate::record::Answered;
use crate::route::rows::RowRoute;

/// Settles the premises of one device.
pub struct Premises<'a> {
    tuning: &'a Tuning,
    device: &'a Device,
    usable: &'a Usable<'a>,
    clock: Stopwatch<'a>,
    answers: Answers,
    /// Formats for which the widened route pays.
    widened: BTreeMap<FormatId, Pays>,
}

/// That the widened route pays for a format.
#[derive(Clone, Copy)]
struct Pays {
    /// Where it does.
    layout: LayoutId,
    /// Fewest rows it serves.
    least: u64,
    /// How that was found.
    answered: Answered,
}

/// The probe, made when something is timed.
struct Stopwatch<'a> {
    device: &'a Device,
    probe: Option<RowProbe>,
    /// Time of a bracket of long launches, if not the usual.
    bracket: Option<Duration>,
}

impl Arms for Stopwatch<'_> {
    fn time(&mut self, rivals: Rivals, problem: &Problem) -> Result<Timed, TuneError> {
        let probe = match self.probe.take() {
            Some(probe) => probe,
            None => RowProbe::new(self.device)?,
        };
        let probe = self.probe.insert(probe);
        if let Some(bracket) = self.bracket {
            probe.timer().hurry(bracket);
        }
        probe.time(rivals, problem)
    }
}

impl<'a> Premises<'a> {
    /// Premises of which none is settled yet.
    pub fn new(tuning: &'a Tuning, device: &'a Device, usable: &'a Usable<'a>) -> Premises<'a> {
        Premises {
            tuning,
            device,
            usable,
            clock: Stopwatch { device, probe: None, bracket: None },
            answers: Answers::default(),
            widened: BTreeMap::new(),
        }
    }

    /// Makes brackets of long launches this short.
    #[must_use]
    pub fn hurry(mut self, bracket: Duration) -> Premises<'a> {
        self.clock.bracket = Some(bracket);
        self
    }

    /// Settles whether matrix cores pay, at the first of some regimes in which a product of the format has
    /// rows with and without them. Where none has, there is nothing to settle.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn matrix_cores(&mut self, format: FormatId, at: &[(Regime, Problem)]) -> Result<(), TuneError> {
        let rows = self.device.backend().rows();
        let pair = at.iter().find_map(|(regime, problem)| {
            let rivals = once::matrix_rivals(rows, *regime, format, &|row| self.admits(row, problem))?;
            Some((rivals, problem))
        });
        let Some((rivals, problem)) = pair else { return Ok(()) };
        if let Some(found) = once::settle(self.tuning, Asks::MatrixCores, rivals, problem, &mut self.clock)? {
            self.answers.put_matrix_cores(rows, found.favoured);
        }
        Ok(())
    }

    /// Settles whether the tile beats the widened route for a format, where `rows` meet the weights;
    /// `problem` is timed, which may be smaller. `widens` answers for the layouts of the backend. Where the
    /// widened route pays it serves from half as many rows on: fewer read more bytes for less. Without rows
    /// of both kinds there is nothing to settle. Once `until` has passed nothing is timed, and the tile
    /// serves.
    ///
    /// # Errors
    /// When the device is lost.
    pub fn tile_beats_deq(
        &mut self,
        format: FormatId,
        rows: u64,
        problem: &Problem,
        widens: &dyn Fn(LayoutId) -> bool,
        until: Option<Instant>,
    ) -> Result<(), TuneError> {
        let least = rows.div_ceil(2);
        let rows = self.device.backend().rows();
        let held = |row: &Row| self.answers.holds_matrix_back(row.name.as_str());
        let admits = |row: &Row| self.admits(row, problem) && !held(row);
        let Some(rivals) = once::widened_rivals(rows, format, widens, &admits) else { return Ok(()) };
        let late = until.is_some_and(|until| Instant::now() >= until);
        let _hold = late.then(|| self.tuning.hold());
        let asks = Asks::Tile(format);
        let found = once::settle(self.tuning, asks, rivals, problem, &mut self.clock)?;
        if let Some(Found { favoured: false, answered }) = found
            && let Some(weight) =
                rows.get(rivals.other).and_then(|row| row.args.iter().find(|spec| spec.format == format))
        {
            self.widened.insert(format, Pays { layout: weight.layout, least, answered });
        }
        Ok(())
    }

    /// What was settled.
    pub fn finish(mut self) -> Answers {
        let backend = self.device.backend();
        let (rows, layouts) = (backend.rows(), backend.layouts());
        let pays = self.widened.iter().map(|(&format, pays)| (format, pays.layout)).collect();
        for (tile, wide) in once::step_backs(rows, &pays, self.usable) {
            let (Some(tile), Some(row)) = (rows.get(tile), rows.get(wide)) else { continue };
            let Some((_, route)) = RowRoute::new(wide, row, layouts) else { continue };
            if let Some(pays) = row.args.iter().find_map(|spec| self.widened.get(&spec.format)) {
                self.answers.put_widened(tile.name.as_str(), route, pays.least, pays.answered);
            }
        }
        self.answers
    }

    fn admits(&self, row: &Row, problem: &Problem) -> bool {
        let gates = || plain_scalars(row).is_ok_and(|scalars| gates_hold(row, problem, &scalars));
        (self.usable)(row) && gates()
    }
}
