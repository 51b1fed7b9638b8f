//! Times what surrounds the products of a decode step, at the shape of Llama 3.1 8B: microseconds a launch in a replayed list.
//!
//! `cargo run -p cajeta-backend-cuda --example rows -- [PART OF A NAME]`

use std::sync::Arc;
use std::time::Duration;

use cajeta_backend_cuda::{Buffer, CudaBackend, CudaDevice, List, Queue};
use cajeta_plugin_api::abi::{DeviceFacts, MemoryKind, Problem, Ticket};
use cajeta_plugin_api::{Answer, Backend, BufferSpan, Device, Fault, Work};

const HEADS: u64 = 32;
const HEADS_KV: u64 = 8;
const HEAD_DIM: u64 = 128;
const PAGE: u64 = 16;
const WIDTH: u64 = HEADS * HEAD_DIM;
const VOCABULARY: u64 = 128_256;
const REPLAYS: usize = 21;
/// Bytes that no cache holds.
const COLD: u64 = 400 << 20;

type Span = BufferSpan<Buffer>;

struct Bed {
    device: CudaDevice,
    queue: Queue,
    facts: DeviceFacts,
    only: String,
}

fn main() -> Answer<()> {
    let facts = CudaBackend::devices()?.first().copied().ok_or_else(|| Fault::unavailable("no device"))?;
    let device = CudaDevice::open(0)?;
    let queue = device.queue()?;
    let mut bed = Bed { device, queue, facts, only: std::env::args().nth(1).unwrap_or_default() };
    println!("| row | at | us a launch, median | min - max | GB/s |\n|---|---|---|---|---|");
    for context in [128, 512, 2048, 8192, 32_768] {
        for sequences in [1, 4, 16] {
            bed.attention(sequences, context)?;
        }
    }
    for rows in [1, 4, 16] {
        bed.choices(rows)?;
        bed.append(rows)?;
        bed.small(rows)?;
    }
    Ok(())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Pseudo-random f32 between -1 and 1.
fn reals(count: u64) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as i32 as f32 / 2_147_483_648.0
    };
    (0..count).flat_map(|_| next().to_le_bytes()).collect()
}

impl Bed {
    fn wait(&mut self, ticket: Ticket) -> Answer<()> {
        self.device.poll(&mut self.queue, ticket, Duration::MAX).map(drop)
    }

    fn empty(&self, bytes: u64) -> Answer<Span> {
        let buffer = self.device.alloc(bytes, MemoryKind::DEVICE, true)?;
        Ok(Span { buffer: Arc::new(buffer), offset: 0, len: bytes })
    }

    /// A buffer of `bytes`, filled with `content` over and over.
    fn filled(&mut self, content: &[u8], bytes: u64) -> Answer<Span> {
        let span = self.empty(bytes)?;
        let mut at = 0;
        while at < bytes {
            let len = (bytes - at).min(content.len() as u64);
            let to = Span { buffer: Arc::clone(&span.buffer), offset: at, len };
            // SAFETY: `content` has at least `len` bytes and outlives the wait.
            let ticket = unsafe { self.device.upload(&mut self.queue, to, content.as_ptr())? };
            self.wait(ticket)?;
            at += len;
        }
        Ok(span)
    }

    fn given(&mut self, content: &[u8]) -> Answer<Span> {
        self.filled(content, content.len() as u64)
    }

    /// Times a list of launches of one row, each with arguments of its own.
    fn time(
        &mut self,
        row: &str,
        at: &str,
        bytes: u64,
        problem: Problem,
        scalars: &[u8],
        launches: &[Vec<Option<Span>>],
    ) -> Answer<()> {
        let found = CudaBackend::rows().iter().position(|known| known.name.as_str() == row);
        let index = found.ok_or_else(|| Fault::invalid(format!("no row {row}")))?;
        let geometry = CudaBackend::geometry(index, &self.facts, &problem, scalars)?;
        let room = |bytes: u64| if bytes > 0 { self.empty(bytes).map(Some) } else { Ok(None) };
        let scratch = room(geometry.scratch_bytes)?;
        let semaphores = match geometry.semaphore_bytes {
            0 => None,
            bytes => Some(self.filled(&vec![0; bytes as usize], bytes)?),
        };
        let mut split = geometry.split_max.max(1);
        loop {
            let work = launches.iter().map(|args| Work {
                row: index,
                split,
                problem,
                args: args.clone(),
                scalars: scalars.to_vec(),
                scratch: scratch.clone(),
                semaphores: semaphores.clone(),
            });
            let list = Arc::new(self.device.list(work.collect())?);
            self.replay(&list, &format!("| {row}, {split} parts | {at}"), bytes, launches.len())?;
            if split == 1 {
                return Ok(());
            }
            split /= 2;
        }
    }

    /// Times replays of a list of `count` launches, each of which touches `bytes`.
    fn replay(&mut self, list: &Arc<List>, what: &str, bytes: u64, count: usize) -> Answer<()> {
        let mut times = Vec::new();
        let mut before = self.device.submit(&mut self.queue, list, false)?;
        for replay in 0..REPLAYS + 2 {
            let after = self.device.submit(&mut self.queue, list, false)?;
            self.wait(after)?;
            if replay >= 2 {
                let elapsed = self.device.elapsed(&mut self.queue, before, after)?;
                times.push(elapsed as f64 / 1e3 / count as f64);
            }
            before = self.device.submit(&mut self.queue, list, false)?;
        }
        self.wait(before)?;
        times.sort_by(f64::total_cmp);
        let pick = |index: usize| times.get(index).copied().unwrap_or(f64::NAN);
        let (middle, fast, slow) = (pick(REPLAYS / 2), pick(0), pick(REPLAYS - 1));
        println!("{what} | {middle:.2} | {fast:.2} - {slow:.2} | {:.0} |", bytes as f64 / middle / 1e3);
        Ok(())
    }

    fn wanted(&self, row: &str) -> bool {
        row.contains(&self.only)
    }

    fn attention(&mut self, sequences: u64, context: u64) -> Answer<()> {
        let row = if sequences == 1 { "attnFlashGqa" } else { "attnFlashGqaCols" };
        if !self.wanted(row) {
            return Ok(());
        }
        let pages = context / PAGE;
        let plane = sequences * context * HEADS_KV * HEAD_DIM * 2;
        let copies = (COLD / plane).clamp(4, 64);
        let halves: Vec<u8> = reals(8 << 20)
            .as_chunks::<4>()
            .0
            .iter()
            .flat_map(|real| {
                // An f32 between -1 and 1 to f16 by its bits; those too small become 0.
                let bits = u32::from_le_bytes(*real);
                let exponent = (bits >> 23 & 255) as i32 - 112;
                let half = if exponent > 0 { (exponent as u32) << 10 | bits >> 13 & 1023 } else { 0 };
                ((bits >> 16 & 0x8000 | half) as u16).to_le_bytes()
            })
            .collect();
        let keys = self.filled(&halves, copies * plane)?;
        let values = self.filled(&halves, copies * plane)?;
        let q = self.given(&reals(sequences * WIDTH))?;
        let starts: Vec<u32> = (0..=sequences as u32).collect();
        let starts = self.given(&words(&starts))?;
        let lengths = self.given(&words(&vec![context as u32; sequences as usize]))?;
        // Neighbours in a sequence lie apart.
        let entries =
            (0..sequences).flat_map(|seq| (0..pages).map(move |page| (page * sequences + seq) as u32));
        let tables = self.given(&words(&entries.collect::<Vec<u32>>()))?;
        let out = self.empty(sequences * WIDTH * 4)?;
        let scale = 1.0 / (HEAD_DIM as f32).sqrt();
        let scalars =
            words(&[HEADS as u32, HEADS_KV as u32, HEAD_DIM as u32, pages as u32, scale.to_bits(), 0, 0, 1]);
        let problem = Problem { m: sequences, n: WIDTH, k: context, batch: sequences, aux: 0 };
        let part = |of: &Span, copy: u64| {
            Some(Span { buffer: Arc::clone(&of.buffer), offset: copy * plane, len: plane })
        };
        let whole = |of: &Span| Some(of.clone());
        let launches = (0..copies).map(|copy| {
            vec![
                whole(&q),
                part(&keys, copy),
                part(&values, copy),
                whole(&starts),
                whole(&lengths),
                whole(&tables),
                None,
                whole(&out),
            ]
        });
        let at = format!("{sequences} x {context} positions");
        self.time(row, &at, 2 * plane, problem, &scalars, &launches.collect::<Vec<_>>())
    }

    fn choices(&mut self, rows: u64) -> Answer<()> {
        let logits = self.given(&reals(rows * VOCABULARY))?;
        let tokens = self.empty(rows * 4)?;
        let draw = [0.8f32.to_bits(), 0.95f32.to_bits(), 0.05f32.to_bits(), 40, 1, 2, 3, 0];
        let params = self.given(&words(&vec![draw; rows as usize].concat()))?;
        let problem = Problem { m: rows, n: VOCABULARY, ..Problem::default() };
        let (at, bytes) = (format!("{rows} rows of {VOCABULARY}"), rows * VOCABULARY * 4);
        if self.wanted("argmaxRow") {
            let args = vec![Some(logits.clone()), Some(tokens.clone())];
            self.time("argmaxRow", &at, bytes, problem, &[], &vec![args; 64])?;
        }
        if self.wanted("sampleRow") {
            let args = vec![Some(logits), Some(params), Some(tokens)];
            self.time("sampleRow", &at, bytes, problem, &[], &vec![args; 16])?;
        }
        Ok(())
    }

    fn append(&mut self, rows: u64) -> Answer<()> {
        let row = if rows == 1 { "ropeAppendPairs" } else { "ropeAppendPairsCols" };
        if !self.wanted(row) {
            return Ok(());
        }
        let width_kv = HEADS_KV * HEAD_DIM;
        let q = self.given(&reals(rows * WIDTH))?;
        let kv = self.given(&reals(rows * width_kv))?;
        let positions = self.given(&words(&vec![100; rows as usize]))?;
        let row_seq = self.given(&words(&(0..rows as u32).collect::<Vec<u32>>()))?;
        let tables = self.given(&words(&(0..rows as u32 * 8).collect::<Vec<u32>>()))?;
        let planes = self.empty(rows * 8 * PAGE * width_kv * 2)?;
        let values = self.empty(rows * 8 * PAGE * width_kv * 2)?;
        let (one, base) = (1.0f32.to_bits(), 500_000.0f32.to_bits());
        let (heads, heads_kv, dim) = (HEADS as u32, HEADS_KV as u32, HEAD_DIM as u32);
        let scalars = words(&[heads, heads_kv, dim, dim, 8, 0, base, one, one, 0, one, one]);
        let problem = Problem { m: rows, n: WIDTH, k: width_kv, batch: rows, aux: 0 };
        let some = |span: &Span| Some(span.clone());
        let args = vec![
            some(&q),
            some(&kv),
            some(&kv),
            some(&positions),
            some(&row_seq),
            some(&tables),
            None,
            some(&planes),
            some(&values),
        ];
        self.time(
            row,
            &format!("{rows} rows"),
            rows * (WIDTH + 2 * width_kv) * 4,
            problem,
            &scalars,
            &vec![args; 64],
        )
    }

    fn small(&mut self, rows: u64) -> Answer<()> {
        let regime = if rows == 1 { "" } else { "Cols" };
        let x = self.given(&reals(rows * WIDTH))?;
        let other = self.given(&reals(rows * WIDTH))?;
        let weight = self.given(&reals(WIDTH))?;
        let table = self.given(&reals(64 * WIDTH))?;
        let tokens = self.given(&words(&(0..rows as u32).collect::<Vec<u32>>()))?;
        let out = self.empty(rows * WIDTH * 4)?;
        let problem = Problem { m: rows, n: 64, k: WIDTH, ..Problem::default() };
        let (at, bytes) = (format!("{rows} rows of {WIDTH}"), rows * WIDTH * 8);
        let eps = words(&[1e-5f32.to_bits(), 0]);
        let scale = words(&[1.0f32.to_bits(), 0]);
        let some = |span: &Span| Some(span.clone());
        let forms = [
            (format!("rmsNorm{regime}"), eps, vec![some(&x), some(&weight), some(&out)]),
            (format!("add{regime}"), Vec::new(), vec![some(&x), some(&other), some(&out)]),
            (format!("f32Embed{regime}"), scale, vec![some(&tokens), some(&table), some(&out)]),
        ];
        for (row, scalars, args) in forms {
            if self.wanted(&row) {
                self.time(&row, &at, bytes, problem, &scalars, &vec![args; 64])?;
            }
        }
        Ok(())
    }
}
