//! The probe of families and of whole forms on a device: rows over operands of their own, or in the place
//! that a model's step has for them.

use std::cell::RefCell;

use cajeta_abi::{Capability, Fact, Problem};
use cajeta_plugin_host::{Device, DeviceError, LaunchSpec, List, Queue};

use super::row_bench::RowBench;
use super::rows_named::{apart, rows_named};
use super::sweep::sweep;
use crate::tune::site::{Footing, Segments, distinct_bytes};
use crate::tune::timer::{Arm, BRACKET_NS, DeviceQueue, KernelTimer};
use crate::tune::{Timed, TuneError};

/// A bracket on a device that works with the host, whose clock marks it without a launch to wait for.
const BRACKET_WITH_HOST_NS: f64 = 4e6;
/// A bracket of whole steps is as many as fit into this time.
const STEP_NS: f64 = 2e6;

/// Times rows of a device.
pub struct RowProbe {
    pub(super) device: Device,
    pub(super) timer: KernelTimer<DeviceQueue>,
    /// What sweeps the device's caches, once it was asked for.
    sweep: Option<Option<List>>,
    /// Nanoseconds that a bracket takes at most, where launches are long.
    bracket_ns: f64,
}

/// Launches of one row within a form.
#[derive(Clone, PartialEq, Debug)]
pub struct Piece {
    /// The row.
    pub row: usize,
    /// Its problem.
    pub problem: Problem,
    /// Its scalars.
    pub scalars: Vec<u8>,
    /// How often it is launched over the same operands.
    pub times: u32,
}

/// One way of computing something.
#[derive(Clone, PartialEq, Debug)]
pub struct Form {
    /// Its name.
    pub name: String,
    /// Its launches in order.
    pub pieces: Vec<Piece>,
}

impl RowProbe {
    /// A probe with a queue of its own.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn new(device: &Device) -> Result<RowProbe, DeviceError> {
        let timer = KernelTimer::new(DeviceQueue::new(device)?);
        let apart = device.supports(Capability::ASYNC)?;
        let bracket_ns = if apart { BRACKET_NS } else { BRACKET_WITH_HOST_NS };
        Ok(RowProbe { device: device.clone(), timer, sweep: None, bracket_ns })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The timer.
    pub fn timer(&mut self) -> &mut KernelTimer<DeviceQueue> {
        &mut self.timer
    }

    /// Times forms that are in place against each other: a bracket goes over one segment after the other.
    /// A step reads `step_bytes` of weights.
    ///
    /// # Errors
    /// Whatever keeps one of them from being launched.
    pub fn segments(&mut self, forms: &[(&str, Segments)], step_bytes: u64) -> Result<Timed, TuneError> {
        let alike = forms.iter().map(|(_, segments)| segments.len()).min().unwrap_or(0);
        if alike == 0 {
            let why = "no segment is in place".to_owned();
            return Err(TuneError::Untimed { what: "a fusion".to_owned(), why });
        }
        let spans = |(_, segments): &(&str, Segments)| {
            distinct_bytes(segments.iter().flatten().flat_map(|launch| launch.args.iter().flatten()))
        };
        let distinct = forms.iter().map(spans).min().unwrap_or(0);
        let mut footing = self.footing(alike, distinct, step_bytes);
        if alike == 1 {
            // A whole step, most of it alike in both: it is long enough by itself.
            footing.bracket_ns = STEP_NS;
        }
        let arms = forms.iter().map(|(name, segments)| {
            let launches = segments.first().map_or(1, |segment| segment.len() as u32);
            ((*name).to_owned(), launches, move |_: &mut Specs<'_>, times: u32| {
                let segments = segments.iter().cycle().take(times as usize);
                Ok(segments.flatten().cloned().collect())
            })
        });
        let arms: Vec<_> = arms.collect();
        // Of a whole step, what its forms have in common is not compared.
        let rows = self.device.backend().rows();
        let launches = |segments: &Segments| -> Vec<(usize, Problem)> {
            segments.iter().flatten().map(|launch| (launch.row, launch.problem)).collect()
        };
        let what = || rows_named(rows, apart(forms.iter().map(|(_, form)| launches(form)).collect()));
        self.compare(arms, footing, &what)
    }

    /// Times whole forms against each other, in their order.
    ///
    /// # Errors
    /// Whatever keeps one of them from being launched.
    pub fn forms(&mut self, forms: &[Form]) -> Result<Timed, TuneError> {
        let queue = self.timer.queue().queue();
        let mut benches = Vec::with_capacity(forms.len());
        for form in forms {
            let bench = |piece: &Piece| {
                RowBench::new(&self.device, queue, piece.row, &piece.problem, &piece.scalars, &|_| None)
            };
            benches.push(form.pieces.iter().map(bench).collect::<Result<Vec<RowBench>, TuneError>>()?);
        }
        queue.finish()?;
        let arms = forms.iter().zip(&benches).map(|(form, benches)| {
            let launches = form.pieces.iter().map(|piece| piece.times).sum();
            (form.name.clone(), launches, move |specs: &mut Specs<'_>, times: u32| {
                let mut parts = Vec::with_capacity(benches.len());
                for (piece, bench) in form.pieces.iter().zip(benches) {
                    parts.push((piece.times as usize, specs.of(bench, piece.row, times)?));
                }
                // Time after time, each with its pieces in order.
                let once = |time: usize| {
                    let pieces =
                        parts.iter().filter_map(move |(times, specs)| Some((*times, specs.get(time)?)));
                    pieces.flat_map(|(times, spec)| std::iter::repeat_n(spec.clone(), times))
                };
                Ok((0..times as usize).flat_map(once).collect())
            })
        });
        let arms: Vec<_> = arms.collect();
        let rows = self.device.backend().rows();
        let pieces = || forms.iter().flat_map(|form| &form.pieces).map(|piece| (piece.row, piece.problem));
        self.compare(arms, Footing::NONE, &|| rows_named(rows, pieces().collect()))
    }

    pub(super) fn footing(&self, sets: usize, distinct: u64, step_bytes: u64) -> Footing {
        let cache = self.device.facts().get(Fact::L2_BYTES).unwrap_or(0);
        Footing::of(sets, distinct, step_bytes, cache)
    }

    /// Times arms. `what` names their rows and problems: whoever reads that the device was lost meanwhile
    /// has to know by what.
    pub(super) fn compare<F>(
        &mut self,
        arms: Vec<(String, u32, F)>,
        footing: Footing,
        what: &dyn Fn() -> String,
    ) -> Result<Timed, TuneError>
    where
        F: Fn(&mut Specs<'_>, u32) -> Result<Vec<LaunchSpec>, DeviceError>,
    {
        let before = self.timer.launches();
        let sweep = if footing.sweep { self.sweep()? } else { None };
        self.timer.sweep_with(sweep);
        // Arms zero their semaphores on a queue of their own: the timer's is busy timing.
        let side = RefCell::new(self.device.queue()?);
        let (device, side) = (&self.device, &side);
        let arms: Vec<Arm<'_, List>> = arms
            .into_iter()
            .map(|(name, launches, specs)| Arm {
                name,
                launches,
                most: footing.most,
                bracket_ns: footing.bracket_ns.min(self.bracket_ns),
                prepare: Box::new(move |times| {
                    let mut queue = side.borrow_mut();
                    let specs = specs(&mut Specs(&mut queue), times)?;
                    queue.finish()?;
                    device.list(&specs)
                }),
            })
            .collect();
        let timings = self.timer.compare(&arms);
        self.timer.sweep_with(None);
        let timings = timings.map_err(|error| TuneError::timing(what, error))?;
        Ok(Timed { timings, launches: self.timer.launches() - before })
    }

    fn sweep(&mut self) -> Result<Option<List>, TuneError> {
        if let Some(known) = &self.sweep {
            return Ok(known.clone());
        }
        let queue = self.timer.queue().queue();
        let made = sweep(&self.device, queue)?;
        queue.finish()?;
        Ok(self.sweep.insert(made).clone())
    }
}

/// Makes launches; their semaphores are zeroed on this queue.
pub(super) struct Specs<'a>(pub(super) &'a mut Queue);

impl Specs<'_> {
    fn of(&mut self, bench: &RowBench, row: usize, launches: u32) -> Result<Vec<LaunchSpec>, DeviceError> {
        bench.specs(self.0, row, launches)
    }
}
