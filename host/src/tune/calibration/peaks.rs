//! Operations per second: the best product of each arithmetic, at a size that keeps the device busy.

use cajeta_abi::{Arith, Problem, Regime};
use cajeta_plugin_host::Device;

use super::record::Measured;
use super::rows::products;
use crate::tune::TuneError;
use crate::tune::bench::{RowBench, plain_scalars};
use crate::tune::timer::{Arm, DeviceQueue, KernelTimer};

/// Sides of the products: the first, and the largest.
const SIDES: (u64, u64) = (512, 8192);
/// A launch this long is long enough.
const LONG_NS: f64 = 20e6;
/// Formats tried for each arithmetic.
const FORMATS: usize = 3;

/// The best rate of an arithmetic.
pub(super) fn peak(
    device: &Device,
    timer: &mut KernelTimer<DeviceQueue>,
    arith: Arith,
) -> Result<Measured, String> {
    let mut best: Option<Measured> = None;
    let mut why = "no row multiplies in it without a rearranged weight".to_owned();
    for (tool, format) in products(device, Regime::PREFILL_BATCH, Some(arith)).into_iter().take(FORMATS) {
        let mut side = SIDES.0;
        loop {
            match time(device, timer, tool.index, side) {
                Err(error) => {
                    why = error.to_string();
                    break;
                }
                Ok(ns) => {
                    let operations = 2.0 * (side as f64).powi(3);
                    let rate = operations / ns * 1e9;
                    if best.as_ref().is_none_or(|best| rate > best.value) {
                        let by = format!("{} ({format}) at {side}x{side}x{side}", tool.row.name);
                        best = Some(Measured { value: rate, by });
                    }
                    if ns > LONG_NS || side >= SIDES.1 {
                        break;
                    }
                }
            }
            side *= 2;
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
