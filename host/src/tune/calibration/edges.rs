//! What surrounds a launch: its own cost in a list, a submission's, a mark's, another queue's.

use std::time::Instant;

use cajeta_abi::Problem;
use cajeta_catalog::op::Op;
use cajeta_plugin_host::{Device, DeviceError, List, Queue};

use super::fact::CalibrationFact;
use super::record::Measured;
use crate::tune::TuneError;
use crate::tune::bench::{RowBench, plain_scalars, plain_tools};
use crate::tune::timer::{ROUNDS, median};

/// Values of the smallest launch.
const WIDTH: u64 = 64;
/// Repetitions within a sample.
const REPEATS: u32 = 50;

/// The facts, each with what it came to.
pub(super) fn edges(device: &Device) -> Result<Vec<(CalibrationFact, Measured)>, String> {
    let first = [Op::Add, Op::Copy].into_iter().find_map(|op| plain_tools(device, op).into_iter().next());
    let tool = first.ok_or("no row adds or copies plainly")?;
    let by = tool.row.name.to_string();
    let measure = || -> Result<[f64; 4], TuneError> {
        let scalars = plain_scalars(tool.row)?;
        let problem = Problem { m: 1, n: 1, k: WIDTH, batch: 1, aux: 0 };
        let mut queue = device.queue()?;
        let mut other = device.queue()?;
        let bench = RowBench::new(device, &mut queue, tool.index, &problem, &scalars, &|_| None)?;
        let single = bench.list(&mut queue, tool.index, 1)?;
        let many = bench.list(&mut queue, tool.index, REPEATS)?;
        queue.finish()?;
        let repeats = f64::from(REPEATS);
        let trip = sample(|| round_trips(&mut queue, None, &single))? / repeats;
        let listed = sample(|| wait(&mut queue, &many))?;
        let marked = sample(|| marks(&mut queue, &single))?;
        let crossing = sample(|| round_trips(&mut queue, Some(&mut other), &single))? / repeats;
        // A list of one, taken from a list of many: what the others add.
        let launch = (listed - trip) / (repeats - 1.0);
        let event = (marked - listed) / (repeats - 1.0);
        Ok([launch, trip, event, crossing - trip])
    };
    let values = measure().map_err(|error| error.to_string())?;
    let facts = [
        CalibrationFact::Launch,
        CalibrationFact::RoundTrip,
        CalibrationFact::Event,
        CalibrationFact::InterQueue,
    ];
    // A difference below what the host's clock can tell apart is none.
    let facts = facts
        .into_iter()
        .zip(values)
        .map(|(fact, value)| (fact, Measured { value: value.max(0.0), by: by.clone() }));
    Ok(facts.collect())
}

/// The median nanoseconds of something done a few times, after once for warmth.
fn sample(mut work: impl FnMut() -> Result<(), DeviceError>) -> Result<f64, DeviceError> {
    work()?;
    let mut samples = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work()?;
        samples.push(start.elapsed().as_secs_f64() * 1e9);
    }
    Ok(median(&mut samples))
}

fn wait(queue: &mut Queue, list: &List) -> Result<(), DeviceError> {
    let ticket = queue.submit(list)?;
    queue.wait(ticket)
}

/// Submissions that are each waited for, on one queue or on two in turn.
fn round_trips(queue: &mut Queue, mut other: Option<&mut Queue>, list: &List) -> Result<(), DeviceError> {
    for turn in 0..REPEATS {
        match &mut other {
            Some(other) if turn % 2 == 1 => wait(other, list)?,
            _ => wait(queue, list)?,
        }
    }
    Ok(())
}

/// As many submissions of one launch, waited for at the end.
fn marks(queue: &mut Queue, list: &List) -> Result<(), DeviceError> {
    for _ in 1..REPEATS {
        queue.submit(list)?;
    }
    wait(queue, list)
}
