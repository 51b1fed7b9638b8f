//! Bytes per second: the best of plain copies and of mat-vecs over weights no cache holds.

use std::sync::atomic::{AtomicBool, Ordering};

use cajeta_abi::{Fact, Problem, Regime};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_plugin_host::Device;

use super::record::Measured;
use super::rows::products;
use crate::tune::TuneError;
use crate::tune::bench::{RowBench, Tool, plain_scalars, plain_tools};
use crate::tune::timer::{Arm, BRACKET_NS, DeviceQueue, KernelTimer};

/// Inputs of the mat-vec that reads.
const WIDTH: u64 = 4096;
/// Fewest and most bytes of what is read once.
const BYTES: (u64, u64) = (64 << 20, 1 << 30);
/// The share of the bandwidth at which a launch has enough bytes in flight.
const SATURATED: f64 = 0.9;
/// The smallest launch that is tried for that, unless so many of them fit into a cache.
const SMALLEST: u64 = 4 << 10;
/// Launches of other bytes that follow each other at most.
const LAUNCHES_MAX: u64 = 4096;

/// A row that moves memory, and how fast it does.
pub(super) struct Mover {
    tool: Tool<'static>,
    kind: Kind,
    bytes: u64,
    /// Bytes per second.
    pub(super) rate: f64,
}

#[derive(Clone, Copy)]
enum Kind {
    Copy,
    MatVec(Format),
}

impl Kind {
    /// The problem that moves about so many bytes, and how many it moves.
    fn problem(self, bytes: u64) -> (Problem, u64) {
        match self {
            Kind::Copy => {
                let width = (bytes / 8).clamp(64, WIDTH);
                let rows = (bytes / 2 / (width * 4)).max(1);
                (Problem { m: rows, n: rows, k: width, batch: 1, aux: 0 }, rows * width * 4 * 2)
            }
            Kind::MatVec(format) => {
                let row = format.row_bytes(WIDTH).unwrap_or(WIDTH).max(1);
                let rows = (bytes / row).max(1);
                (Problem { m: 1, n: rows, k: WIDTH, batch: 1, aux: 0 }, rows * row)
            }
        }
    }
}

impl Mover {
    /// What it was measured with.
    pub(super) fn by(&self) -> String {
        format!("{} over {} MiB", self.tool.row.name, self.bytes >> 20)
    }

    /// The same launch, measured again.
    pub(super) fn again(
        &self,
        device: &Device,
        timer: &mut KernelTimer<DeviceQueue>,
    ) -> Result<f64, TuneError> {
        rate(device, timer, self.tool, self.kind, self.bytes)
    }

    /// The fewest bytes of a launch that reaches the bandwidth, each launch over other bytes than the last.
    pub(super) fn in_flight(
        &self,
        device: &Device,
        timer: &mut KernelTimer<DeviceQueue>,
    ) -> Result<Measured, TuneError> {
        let cache = device.facts().get(Fact::L2_BYTES).unwrap_or(0);
        let (_, least) = self.kind.problem(1);
        let smallest = (cache.saturating_mul(2) / LAUNCHES_MAX).max(SMALLEST).max(least).next_power_of_two();
        let mut bytes = smallest;
        while bytes < self.bytes {
            let reached = rate(device, timer, self.tool, self.kind, bytes)?;
            if reached >= SATURATED * self.rate {
                let (_, moved) = self.kind.problem(bytes);
                let by = match bytes > smallest {
                    true => self.tool.row.name.to_string(),
                    // What fewer would do is not known: launches that small stay in the cache.
                    false => format!("{}; the smallest launch tried is enough", self.tool.row.name),
                };
                return Ok(Measured { value: moved as f64, by });
            }
            bytes *= 2;
        }
        Ok(Measured { value: self.bytes as f64, by: self.tool.row.name.to_string() })
    }
}

/// The row that moves the most bytes per second.
pub(super) fn fastest(device: &Device, timer: &mut KernelTimer<DeviceQueue>) -> Result<Mover, String> {
    let cache = device.facts().get(Fact::L2_BYTES).unwrap_or(0);
    let free = device.mem_info().map_or(u64::MAX, |memory| memory.free.min(memory.largest_alloc));
    let limit = device.facts().get(Fact::LARGEST_BINDING).unwrap_or(u64::MAX).min(free / 8);
    let bytes = cache.saturating_mul(4).clamp(BYTES.0, BYTES.1).min(limit);
    let copies = plain_tools(device, Op::Copy).into_iter().take(1).map(|tool| (tool, Kind::Copy));
    // Formats whose decoding is next to nothing: what they take is reading.
    let cheap = [Format::F32, Format::F16, Format::BF16, Format::Q8_0];
    let reads = products(device, Regime::DECODE_ROW, |tool| tool.is_plain()).into_iter();
    let reads = reads.filter(|(_, format)| cheap.contains(format));
    let candidates = copies.chain(reads.map(|(tool, format)| (tool, Kind::MatVec(format))));
    let (mut best, mut why): (Option<Mover>, String) = (None, "no row copies or multiplies plainly".into());
    for (tool, kind) in candidates {
        match rate(device, timer, tool, kind, bytes) {
            Ok(rate) if best.as_ref().is_none_or(|best| rate > best.rate) => {
                best = Some(Mover { tool, kind, bytes: kind.problem(bytes).1, rate });
            }
            Ok(_) => {}
            Err(error) => why = error.to_string(),
        }
    }
    best.ok_or(why)
}

/// Bytes per second of a row that moves about `bytes`.
fn rate(
    device: &Device,
    timer: &mut KernelTimer<DeviceQueue>,
    tool: Tool<'_>,
    kind: Kind,
    bytes: u64,
) -> Result<f64, TuneError> {
    let (problem, moved) = kind.problem(bytes);
    let scalars = plain_scalars(tool.row)?;
    let queue = timer.queue().queue();
    let bench = RowBench::spread(device, queue, tool.index, &problem, &scalars)?;
    queue.finish()?;
    let side = std::cell::RefCell::new(device.queue()?);
    // One bracket passes over all operands, so that it reads nothing the last launches left behind.
    let pass = bench.copies() as u32;
    let arm = Arm {
        name: tool.row.name.to_string(),
        launches: pass,
        most: u32::MAX,
        bracket_ns: BRACKET_NS,
        prepare: Box::new(|launches| {
            let mut side = side.borrow_mut();
            let list = bench.list(&mut side, tool.index, launches.max(1) * pass)?;
            side.finish()?;
            Ok(list)
        }),
    };
    let timings = timer.compare(std::slice::from_ref(&arm))?;
    let ns = timings.first().map_or(f64::NAN, |timing| timing.median_ns) / f64::from(pass);
    Ok(moved as f64 / ns * 1e9)
}

/// Runs something while every second core of the host streams through memory of its own.
pub(super) fn under_host_load<T>(work: impl FnOnce() -> T) -> T {
    /// Bytes each thread streams through: more than a core's share of any cache.
    const STREAM: usize = 64 << 20;
    /// Ends the load also when the work panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let stopped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..cores.div_ceil(2) {
            scope.spawn(|| {
                let mut memory = vec![1u64; STREAM / 8];
                while !stopped.load(Ordering::Relaxed) {
                    for chunk in memory.chunks_mut(STREAM / 64) {
                        chunk.iter_mut().for_each(|word| *word = word.wrapping_mul(3));
                        if stopped.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                    std::hint::black_box(&memory);
                }
            });
        }
        let _stop = Stop(&stopped);
        // The threads are faulting their memory in; what is measured is what they do afterwards.
        std::thread::sleep(std::time::Duration::from_millis(100));
        work()
    })
}
