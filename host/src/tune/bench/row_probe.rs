//! The probe of families on a device: their rows over operands of their own.

use cajeta_abi::Problem;
use cajeta_plugin_host::{BufferSpan, Device, DeviceError};

use super::row_bench::RowBench;
use crate::tune::timer::{Arm, DeviceQueue, KernelTimer};
use crate::tune::{FamilyProbe, Timed, TuneError};

/// Times rows of a device.
pub struct RowProbe<'a> {
    device: Device,
    timer: KernelTimer<DeviceQueue>,
    given: Box<dyn Fn(usize) -> Option<BufferSpan> + 'a>,
}

impl<'a> RowProbe<'a> {
    /// A probe with a queue of its own.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub fn new(device: &Device) -> Result<RowProbe<'a>, DeviceError> {
        let timer = KernelTimer::new(DeviceQueue::new(device)?);
        Ok(RowProbe { device: device.clone(), timer, given: Box::new(|_| None) })
    }

    /// Uses these arguments instead of making them: a resident weight.
    pub fn give(&mut self, given: impl Fn(usize) -> Option<BufferSpan> + 'a) {
        self.given = Box::new(given);
    }

    /// The timer.
    pub fn timer(&mut self) -> &mut KernelTimer<DeviceQueue> {
        &mut self.timer
    }
}

impl FamilyProbe for RowProbe<'_> {
    fn time(&mut self, rows: &[usize], problem: &Problem, scalars: &[u8]) -> Result<Timed, TuneError> {
        let Some(&first) = rows.first() else { return Ok(Timed::default()) };
        let before = self.timer.launches();
        let given = self.given.as_ref();
        let queue = self.timer.queue().queue();
        let bench = RowBench::new(&self.device, queue, first, problem, scalars, given)?;
        queue.finish()?;
        let names = self.device.backend().rows();
        let name = |row: usize| names.get(row).map(|row| row.name.to_string()).unwrap_or_default();
        // Lists of arms zero their semaphores on a queue of their own; the timer's is busy timing.
        let side = std::cell::RefCell::new(self.device.queue()?);
        let arms: Vec<Arm<'_, _>> = rows
            .iter()
            .map(|&row| Arm {
                name: name(row),
                prepare: Box::new({
                    let (bench, side) = (&bench, &side);
                    move |launches| {
                        let mut side = side.borrow_mut();
                        let list = bench.list(&mut side, row, launches)?;
                        side.finish()?;
                        Ok(list)
                    }
                }),
            })
            .collect();
        let timings = self.timer.compare(&arms)?;
        Ok(Timed { timings, launches: self.timer.launches() - before })
    }
}

impl std::fmt::Debug for RowProbe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowProbe").field("timer", &self.timer).finish_non_exhaustive()
    }
}
