//! Times what a device allows at most, as rows of a table: reads, reads in a chain of kernels, edges, a grid barrier.
//!
//! `cargo run -p cajeta-backend-cuda --example ceilings -- target/kernels/cuda/bench/ceilings.sm_90a.cubin`

#[allow(dead_code, unused_imports, reason = "the plugin uses what an example does not")]
#[path = "../src/driver/mod.rs"]
mod driver;

use std::sync::Arc;

use cajeta_plugin_api::{Answer, Fault};
use driver::{Context, DeviceMemory, Event, Function, Graph, Module, Node, Stream};

/// Bytes read from: far more than any cache holds.
const DATA: u64 = 4 << 30;
const THREADS: u32 = 256;
const WAVES: u32 = THREADS / 32;
const REPLAYS: usize = 25;
const SHARED_MOST: u32 = 220 << 10;

/// The kernels' one parameter, as `plugins/kernels/bench/ceilings.cu` lays it out.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Bench {
    data: u64,
    from: u64,
    to: u64,
    bytes: u64,
    slot: u32,
    stages: u32,
    early: u32,
    ahead: u32,
    rounds: u32,
    reserved: u32,
}

/// How a kernel of a chain reads.
#[derive(Clone, Copy)]
struct Ring {
    slot: u32,
    stages: u32,
    early: bool,
    ahead: u32,
}

struct Bed {
    context: Arc<Context>,
    stream: Stream,
    code: Arc<Module>,
    data: DeviceMemory,
    /// Two sides of words, which a chain goes between.
    words: DeviceMemory,
}

const SIDE: u64 = 4096;

/// Microseconds of the replays, sorted.
struct Times(Vec<f64>);

impl Times {
    fn median(&self) -> f64 {
        self.0.get(self.0.len() / 2).copied().unwrap_or(f64::NAN)
    }
    fn spread(&self) -> (f64, f64) {
        let ends = (self.0.first(), self.0.last());
        (ends.0.copied().unwrap_or(f64::NAN), ends.1.copied().unwrap_or(f64::NAN))
    }
}

fn main() -> Answer<()> {
    let path =
        std::env::args().nth(1).unwrap_or("target/kernels/cuda/bench/ceilings.sm_90a.cubin".to_owned());
    let code = std::fs::read(&path).map_err(|error| {
        Fault::invalid(format!("{path}: {error}; `cargo xtask kernels` makes it, its path is the argument"))
    })?;
    let context = Context::of(0)?;
    let bed = Bed {
        stream: Stream::new(&context)?,
        code: Module::load(&context, &code, &path)?,
        data: DeviceMemory::alloc(&context, DATA)?,
        words: DeviceMemory::alloc(&context, 2 * SIDE * 4)?,
        context,
    };
    let grid = u32::try_from(bed.context.multiprocessors()).map_err(|_| Fault::internal("no device"))?;
    let fill = Bench { data: bed.data.address(), bytes: DATA, ..Bench::default() };
    bed.replay(&bed.code.function("fillReal")?, &[fill], 8 * grid, 0, false)?;
    println!("| what | form | median | min - max |\n|---|---|---|---|");
    bed.streams(grid)?;
    bed.chains(grid)?;
    bed.edges(grid)?;
    bed.barriers(grid)
}

impl Bed {
    /// Runs a chain of launches of one kernel, warm, and times its replays.
    fn replay(
        &self,
        function: &Function,
        chain: &[Bench],
        grid: u32,
        shared: u32,
        early: bool,
    ) -> Answer<Times> {
        let nodes: Vec<Node<'_, Bench>> = chain
            .iter()
            .map(|parameter| Node {
                function,
                grid: [grid, 1, 1],
                threads: THREADS,
                shared,
                parameter,
                early,
            })
            .collect();
        // SAFETY: the one parameter of every kernel is a `Bench`, whose addresses are of memory that lives past the
        // replays; `chain`s read at most `bytes` from `data` and a word a block.
        let graph = unsafe { Graph::chain(&self.context, &nodes)? };
        let mut times = Vec::new();
        for replay in 0..REPLAYS + 3 {
            // SAFETY: both sides of words are ours, and what reads them is queued behind.
            unsafe { self.stream.fill(self.words.address(), 0, 2 * SIDE * 4)? };
            let (begin, end) = (Event::new(&self.context)?, Event::new(&self.context)?);
            begin.record(&self.stream)?;
            graph.launch(&self.stream)?;
            end.record(&self.stream)?;
            self.stream.wait()?;
            if replay >= 3 {
                times.push(end.since(&begin)? as f64 / 1e3);
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(Times(times))
    }

    /// A chain whose launches each hand on a word a block, from side to side; checked after its replays.
    fn chained(
        &self,
        name: &str,
        launches: Vec<Bench>,
        grid: u32,
        shared: u32,
        early: bool,
    ) -> Answer<Times> {
        let function = self.code.function(name)?;
        if shared > 0 {
            function.allow_shared(u64::from(SHARED_MOST))?;
        }
        let (count, side) =
            (launches.len() as u32, |index: usize| self.words.address() + (index % 2) as u64 * SIDE * 4);
        let chain: Vec<Bench> = launches
            .into_iter()
            .enumerate()
            .map(|(index, bench)| Bench { from: side(index), to: side(index + 1), ..bench })
            .collect();
        let times = self.replay(&function, &chain, grid, shared, early)?;
        let mut seen = vec![0u32; grid as usize];
        // SAFETY: `seen` has a word a block and lives past the wait; the side holds as many.
        unsafe { self.stream.copy(seen.as_mut_ptr() as u64, side(count as usize), u64::from(grid) * 4)? };
        self.stream.wait()?;
        if let Some(wrong) = seen.iter().find(|word| **word != count) {
            return Err(Fault::internal(format!(
                "{name}: {count} launches in order expected, a block saw {wrong}"
            )));
        }
        Ok(times)
    }

    /// One kernel over everything.
    fn streams(&self, grid: u32) -> Answer<()> {
        let whole = Bench { data: self.data.address(), bytes: DATA, ..Bench::default() };
        let report = |form: &str, times: &Times| {
            let (fast, slow) = times.spread();
            let rate = |us: f64| DATA as f64 / us / 1e3;
            println!(
                "| read 4.3 GB | {form} | {:.0} GB/s | {:.0} - {:.0} |",
                rate(times.median()),
                rate(slow),
                rate(fast)
            );
        };
        for blocks in [2, 4, 8] {
            let times = self.chained("readLoads", vec![whole], blocks * grid, 0, false)?;
            report(&format!("16-byte loads, {blocks} blocks a multiprocessor"), &times);
        }
        for (slot, stages, blocks) in
            [(2048, 3, 1), (2048, 6, 1), (4096, 3, 1), (4096, 6, 1), (8192, 3, 1), (2048, 3, 2), (4096, 3, 2)]
        {
            let bench = Bench { slot, stages, ..whole };
            let times = self.chained("readBulk", vec![bench], blocks * grid, WAVES * slot * stages, false)?;
            let bytes = WAVES * slot * stages * blocks / 1024;
            report(
                &format!(
                    "bulk copies of {slot} B, {bytes} KB on their way, {blocks} blocks a multiprocessor"
                ),
                &times,
            );
        }
        Ok(())
    }

    /// Kernels one after another over ever new memory.
    fn chains(&self, grid: u32) -> Answer<()> {
        let ring = |slot, stages, early, ahead| Ring { slot, stages, early, ahead };
        for megabytes in [0.0, 2.4, 9.4, 33.0, 66.0] {
            self.chain("plain edges", megabytes, grid, ring(4096, 3, false, 0), false)?;
            self.chain("programmatic, waits first", megabytes, grid, ring(4096, 3, false, 0), true)?;
            self.chain("programmatic, 96 KB asked first", megabytes, grid, ring(4096, 3, true, 0), true)?;
            self.chain("the same in 2 KB copies", megabytes, grid, ring(2048, 6, true, 0), true)?;
            self.chain("programmatic, 64 KB asked first", megabytes, grid, ring(4096, 2, true, 0), true)?;
            self.chain(
                "programmatic, 96 KB asked first, 64 KB more into L2",
                megabytes,
                grid,
                ring(4096, 3, true, 2),
                true,
            )?;
            self.chain(
                "programmatic, 96 KB asked first, 160 KB more into L2",
                megabytes,
                grid,
                ring(4096, 3, true, 5),
                true,
            )?;
        }
        Ok(())
    }

    fn chain(&self, form: &str, megabytes: f64, grid: u32, ring: Ring, early: bool) -> Answer<()> {
        // Whole slots, so that nothing is left over.
        let bytes = (megabytes * 1e6) as u64 / u64::from(ring.slot) * u64::from(ring.slot);
        let count = if bytes == 0 { 400 } else { (3 << 29) / bytes.max(4 << 20) };
        let launches = (0..count).map(|index| Bench {
            data: self.data.address() + index * bytes,
            bytes,
            slot: ring.slot,
            stages: ring.stages,
            early: u32::from(ring.early),
            ahead: ring.ahead,
            ..Bench::default()
        });
        let times =
            self.chained("readBulk", launches.collect(), grid, WAVES * ring.slot * ring.stages, early)?;
        let (fast, slow) = times.spread();
        let each = |us: f64| us / count as f64;
        let rate = bytes as f64 / each(times.median()) / 1e3;
        println!(
            "| {count} kernels of {megabytes} MB | {form} | {rate:.0} GB/s, {:.2} us each | {:.2} - {:.2} us |",
            each(times.median()),
            each(fast),
            each(slow)
        );
        Ok(())
    }

    /// Kernels that do nothing else.
    fn edges(&self, grid: u32) -> Answer<()> {
        const LENGTH: usize = 1000;
        let kernels = [("tinyStep", 1), ("tinyCluster2", 2), ("tinyCluster4", 4), ("tinyCluster8", 8)];
        for (name, cluster) in kernels {
            for blocks in [cluster, grid / cluster * cluster] {
                for (form, early) in [("plain edge", false), ("programmatic edge", true)] {
                    let times = self.chained(name, vec![Bench::default(); LENGTH], blocks, 0, early)?;
                    let (fast, slow) = times.spread();
                    let each = |us: f64| us / LENGTH as f64;
                    println!(
                        "| {LENGTH} empty kernels of {blocks} blocks, clusters of {cluster} | {form} | {:.2} us each | {:.2} - {:.2} us |",
                        each(times.median()),
                        each(fast),
                        each(slow)
                    );
                }
            }
        }
        Ok(())
    }

    /// A barrier of the whole grid, from the difference of two counts.
    fn barriers(&self, grid: u32) -> Answer<()> {
        let function = self.code.function("gridBarrier")?;
        for blocks in [grid, 2 * grid] {
            let time = |rounds| {
                let bench = Bench { to: self.words.address(), rounds, ..Bench::default() };
                self.replay(&function, &[bench], blocks, 0, false)
            };
            let (few, many) = (time(200)?, time(1200)?);
            let ((few_fast, few_slow), (fast, slow)) = (few.spread(), many.spread());
            println!(
                "| barrier of {blocks} blocks | one counter | {:.2} us | {:.2} - {:.2} us |",
                (many.median() - few.median()) / 1e3,
                (fast - few_slow) / 1e3,
                (slow - few_fast) / 1e3
            );
        }
        Ok(())
    }
}
