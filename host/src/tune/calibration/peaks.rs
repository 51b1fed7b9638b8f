//! Operations per second: the best product of each arithmetic, at a size that keeps the device busy.

use std::time::{Duration, Instant};

use cajeta_abi::{Arith, Problem, Regime};
use cajeta_plugin_host::Device;

use super::record::Measured;
use super::rows::products;
use crate::tune::TuneError;
use crate::tune::bench::{RowBench, plain_scalars};
use crate::tune::timer::{Arm, BRACKET_NS, DeviceQueue, KernelTimer};

/// Sides of the products: the first, and the largest.
const SIDES: (u64, u64) = (512, 8192);
/// A launch this long is long enough.
const LONG_NS: f64 = 20e6;
/// Formats whose products grow past the first side: those that were fastest at it.
const FORMATS: usize = 3;
/// No further format is tried once trying has taken this long.
const TRYING: Duration = Duration::from_secs(3);

/// The best rate of an arithmetic.
pub(super) fn peak(
    device: &Device,
    timer: &mut KernelTimer<DeviceQueue>,
    arith: Arith,
) -> Result<Measured, String> {
    let mut best: Option<Measured> = None;
    let mut why = "no row of this backend multiplies in it".to_owned();
    let begun = Instant::now();
    let mut tried = Vec::new();
    for (tool, format) in products(device, Regime::PREFILL_BATCH, |tool| tool.row.arith == arith) {
        if !tried.is_empty() && begun.elapsed() > TRYING {
            break;
        }
        match time(device, timer, tool.index, SIDES.0) {
            Ok(ns) => tried.push((ns, tool, format)),
            Err(error) => why = error.to_string(),
        }
    }
    tried.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    for (first, tool, format) in tried.into_iter().take(FORMATS) {
        let (mut side, mut outcome) = (SIDES.0, Ok(first));
        loop {
            let ns = match outcome {
                Ok(ns) => ns,
                Err(error) => {
                    why = TuneError::to_string(&error);
                    break;
                }
            };
            let rate = 2.0 * (side as f64).powi(3) / ns * 1e9;
            if best.as_ref().is_none_or(|best| rate > best.value) {
                let by = format!("{} ({format}) at {side}x{side}x{side}", tool.row.name);
                best = Some(Measured { value: rate, by });
            }
            if ns > LONG_NS || side >= SIDES.1 {
                break;
            }
            side *= 2;
            outcome = time(device, timer, tool.index, side);
        }
    }
    best.ok_or(why)
}

fn time(
    device: &Device,
    timer: &mut KernelTimer<DeviceQueue>,
    row: usize,
    side: u64,
) -> Result<f64, TuneError> {
    let problem = Problem { m: side, n: side, k: side, batch: 1, aux: 0 };
    let Some(spec) = device.backend().rows().get(row) else { return Ok(f64::NAN) };
    let scalars = plain_scalars(spec)?;
    let queue = timer.queue().queue();
    let bench = RowBench::new(device, queue, row, &problem, &scalars, &|_| None)?;
    queue.finish()?;
    let side_queue = std::cell::RefCell::new(device.queue()?);
    let arm = Arm {
        name: spec.name.to_string(),
        launches: 1,
        most: u32::MAX,
        bracket_ns: BRACKET_NS,
        prepare: Box::new(|launches| {
            let mut queue = side_queue.borrow_mut();
            let list = bench.list(&mut queue, row, launches)?;
            queue.finish()?;
            Ok(list)
        }),
    };
    let timings = timer.compare(std::slice::from_ref(&arm))?;
    Ok(timings.first().map_or(f64::NAN, |timing| timing.median_ns))
}
