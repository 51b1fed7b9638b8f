//! The probe of families and of whole forms on a device: rows over operands of their own, or in the place
//! that a model's step has for them.

use std::cell::RefCell;

use cajeta_abi::{Fact, Problem};
use cajeta_plugin_host::{Device, DeviceError, LaunchSpec, List, Queue};

use super::operands::plain_scalars;
use super::row_bench::RowBench;
use super::sweep::sweep;
use crate::tune::probes::once::{Arms, Rivals};
use crate::tune::site::{ArgSet, Footing, Segments, distinct_bytes};
use crate::tune::timer::{Arm, DeviceQueue, KernelTimer};
use crate::tune::{FamilyProbe, Timed, TuneError};

/// A bracket of whole steps is as many as fit into this time.
const STEP_NS: f64 = 2e6;

/// Times rows of a device.
pub struct RowProbe {
    device: Device,
    timer: KernelTimer<DeviceQueue>,
    /// What sweeps the device's caches, once it was asked for.
    sweep: Option<Option<List>>,
}

/// A [`RowProbe`] of launches that are in place.
pub struct PlacedProbe<'a> {
    probe: &'a mut RowProbe,
    sets: Vec<ArgSet>,
    step_bytes: u64,
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
        Ok(RowProbe { device: device.clone(), timer, sweep: None })
    }

    /// The probe of launches that take one of these sets of arguments after the other, in a model whose step
    /// reads so many bytes of weights. Without sets it makes its own operands.
    pub fn placed(&mut self, sets: Vec<ArgSet>, step_bytes: u64) -> PlacedProbe<'_> {
        PlacedProbe { probe: self, sets, step_bytes }
    }

    /// The timer.
    pub fn timer(&mut self) -> &mut KernelTimer<DeviceQueue> {
        &mut self.timer
    }

    /// Times forms that are in place against each other: a bracket goes over one segment after the other.
    /// `step_bytes` as in [`RowProbe::placed`].
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
        self.compare(arms, footing)
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
        self.compare(arms, Footing::NONE)
    }

    fn footing(&self, sets: usize, distinct: u64, step_bytes: u64) -> Footing {
        let cache = self.device.facts().get(Fact::L2_BYTES).unwrap_or(0);
        Footing::of(sets, distinct, step_bytes, cache)
    }

    fn compare<F>(&mut self, arms: Vec<(String, u32, F)>, footing: Footing) -> Result<Timed, TuneError>
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
                bracket_ns: footing.bracket_ns,
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
        Ok(Timed { timings: timings?, launches: self.timer.launches() - before })
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
struct Specs<'a>(&'a mut Queue);

impl Specs<'_> {
    fn of(&mut self, bench: &RowBench, row: usize, launches: u32) -> Result<Vec<LaunchSpec>, DeviceError> {
        bench.specs(self.0, row, launches)
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
        probe.compare(arms.iter().map(arm).collect(), footing)
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
