//! The probe of families and of whole forms on a device: rows over operands of their own.

use std::cell::RefCell;

use cajeta_abi::Problem;
use cajeta_plugin_host::{BufferSpan, Device, DeviceError, LaunchSpec, List};

use super::operands::plain_scalars;
use super::row_bench::RowBench;
use crate::tune::probes::once::{Arms, Rivals};
use crate::tune::timer::{Arm, DeviceQueue, KernelTimer};
use crate::tune::{FamilyProbe, Timed, TuneError};

/// Times rows of a device.
#[derive(Debug)]
pub struct RowProbe {
    device: Device,
    timer: KernelTimer<DeviceQueue>,
}

/// A [`RowProbe`] that uses some arguments instead of making them.
pub struct GivenProbe<'a> {
    probe: &'a mut RowProbe,
    given: &'a dyn Fn(usize) -> Option<BufferSpan>,
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
        Ok(RowProbe { device: device.clone(), timer: KernelTimer::new(DeviceQueue::new(device)?) })
    }

    /// The probe with arguments that are there already: resident weights.
    pub fn with<'a>(&'a mut self, given: &'a dyn Fn(usize) -> Option<BufferSpan>) -> GivenProbe<'a> {
        GivenProbe { probe: self, given }
    }

    /// The timer.
    pub fn timer(&mut self) -> &mut KernelTimer<DeviceQueue> {
        &mut self.timer
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
        self.compare(arms)
    }

    fn compare<F>(&mut self, arms: Vec<(String, u32, F)>) -> Result<Timed, TuneError>
    where
        F: Fn(&mut Specs<'_>, u32) -> Result<Vec<LaunchSpec>, DeviceError>,
    {
        let before = self.timer.launches();
        // Arms zero their semaphores on a queue of their own: the timer's is busy timing.
        let side = RefCell::new(self.device.queue()?);
        let (device, side) = (&self.device, &side);
        let arms: Vec<Arm<'_, List>> = arms
            .into_iter()
            .map(|(name, launches, specs)| Arm {
                name,
                launches,
                prepare: Box::new(move |times| {
                    let mut queue = side.borrow_mut();
                    let specs = specs(&mut Specs(&mut queue), times)?;
                    queue.finish()?;
                    device.list(&specs)
                }),
            })
            .collect();
        let timings = self.timer.compare(&arms)?;
        Ok(Timed { timings, launches: self.timer.launches() - before })
    }
}

/// Makes launches; their semaphores are zeroed on this queue.
struct Specs<'a>(&'a mut cajeta_plugin_host::Queue);

impl Specs<'_> {
    fn of(&mut self, bench: &RowBench, row: usize, launches: u32) -> Result<Vec<LaunchSpec>, DeviceError> {
        bench.specs(self.0, row, launches)
    }
}

impl FamilyProbe for GivenProbe<'_> {
    fn time(&mut self, rows: &[usize], problem: &Problem, scalars: &[u8]) -> Result<Timed, TuneError> {
        let Some(&first) = rows.first() else { return Ok(Timed::default()) };
        let probe = &mut *self.probe;
        let queue = probe.timer.queue().queue();
        let bench = RowBench::new(&probe.device, queue, first, problem, scalars, self.given)?;
        queue.finish()?;
        let known = probe.device.backend().rows();
        let name = |row: usize| known.get(row).map(|row| row.name.to_string()).unwrap_or_default();
        let bench = &bench;
        let arm = |&row: &usize| {
            (name(row), 1, move |specs: &mut Specs<'_>, times: u32| specs.of(bench, row, times))
        };
        probe.compare(rows.iter().map(arm).collect())
    }
}

impl FamilyProbe for RowProbe {
    fn time(&mut self, rows: &[usize], problem: &Problem, scalars: &[u8]) -> Result<Timed, TuneError> {
        self.with(&|_| None).time(rows, problem, scalars)
    }
}

impl Arms for RowProbe {
    fn time(&mut self, rivals: Rivals, problem: &Problem) -> Result<Timed, TuneError> {
        let rows = self.device.backend().rows();
        let form = |row: usize| -> Result<Form, TuneError> {
            let missing =
                || TuneError::Untimed { what: format!("row {row}"), why: "it does not exist".into() };
            let spec = rows.get(row).ok_or_else(missing)?;
            let pieces = vec![Piece { row, problem: *problem, scalars: plain_scalars(spec)?, times: 1 }];
            Ok(Form { name: spec.name.to_string(), pieces })
        };
        self.forms(&[form(rivals.favoured)?, form(rivals.other)?])
    }
}
