//! Times what a host chooses between: two ways to ask for weights ahead, q|k|v in one launch or in three,
//! attention in tiles or row by row. Rounds are interleaved, medians of launches out of cold memory.
//!
//! `cargo run --release -p cajeta-backend-cpu --example pairs -- far|qkv|attention [FORMAT …]`

use std::sync::Arc;
use std::time::Duration;

use cajeta_backend_cpu::{Buffer, CpuBackend, CpuDevice};
use cajeta_plugin_api::abi::{MemoryKind, Problem};
use cajeta_plugin_api::catalog::kv::block_bytes;
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::catalog::scalars::AttentionScalars;
use cajeta_plugin_api::{Answer, Backend, BufferSpan, Device, Fault, Work};

const ROUNDS: usize = 21;
/// More than any cache of the machine holds.
const COLD: u64 = 256 << 20;

type Span = BufferSpan<Buffer>;

fn main() -> Answer<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut formats: Vec<Format> = words.iter().filter_map(|word| Format::from_name(word)).collect();
    if formats.is_empty() {
        formats = vec![Format::Q4_K, Format::Q6_K, Format::Q8_0];
    }
    let bench = Bench(CpuDevice::open(0)?);
    match words.first().map(String::as_str) {
        Some("qkv") => bench.qkv(&formats),
        Some("attention") => bench.attention(),
        _ => bench.far(&formats),
    }
}

/// One form: the launches that do the work once.
type Form = Vec<Work<Buffer>>;

struct Bench(CpuDevice);

impl Bench {
    fn span(&self, bytes: u64, fill: u8) -> Answer<Span> {
        let buffer = self.0.alloc(bytes, MemoryKind::DEVICE, false)?;
        let start = self.0.map(&buffer)?;
        // SAFETY: the buffer is new, and `bytes` long.
        unsafe { start.write_bytes(fill, bytes as usize) };
        Ok(BufferSpan { buffer: Arc::new(buffer), offset: 0, len: bytes })
    }

    fn words(&self, values: &[u32]) -> Answer<Span> {
        let span = self.span(values.len() as u64 * 4, 0)?;
        // SAFETY: the buffer is new, and as long as the values.
        unsafe { self.0.map(&span.buffer)?.copy_from(values.as_ptr().cast(), values.len() * 4) };
        Ok(span)
    }

    fn work(
        &self,
        name: &str,
        problem: Problem,
        scalars: &[u8],
        args: Vec<Option<Span>>,
    ) -> Answer<Work<Buffer>> {
        let row = CpuBackend::rows().iter().position(|row| row.name.as_str() == name);
        let row = row.ok_or_else(|| Fault::invalid(format!("there is no row {name}")))?;
        let bytes = CpuBackend::geometry(row, &CpuBackend::devices()?[0], &problem, scalars)?.scratch_bytes;
        let scratch = if bytes > 0 { Some(self.span(bytes, 0)?) } else { None };
        Ok(Work { row, split: 1, problem, args, scalars: scalars.to_vec(), scratch, semaphores: None })
    }

    /// Median microseconds of each form; `copies` of it follow each other, over memory of their own.
    fn time(&self, what: &str, forms: Vec<(&str, Vec<Form>)>) -> Answer<()> {
        let mut queue = self.0.queue()?;
        let mut timed = Vec::new();
        for (name, copies) in forms {
            let launches = copies.first().map_or(1, Vec::len);
            let list = Arc::new(self.0.list(copies.into_iter().flatten().collect())?);
            timed.push((name, launches, list, Vec::new()));
        }
        for _ in 0..ROUNDS {
            for (_, launches, list, times) in &mut timed {
                let ticket = self.0.submit(&mut queue, list, true)?;
                self.0.poll(&mut queue, ticket, Duration::MAX)?;
                let spans = self.0.spans(&mut queue, ticket)?;
                // From a form's first start to its last end: what lies between launches counts.
                let forms = spans.chunks(*launches).filter_map(|form| {
                    let (first, last) = (form.first()?, form.last()?);
                    Some(last.start_ns + last.duration_ns - first.start_ns)
                });
                times.push(median(forms.collect()));
            }
        }
        let times: Vec<_> = timed.into_iter().map(|(name, _, _, times)| (name, median(times))).collect();
        let first = times.first().map_or(1, |(_, time)| *time);
        let line = times.iter().map(|(name, time)| {
            let change = (*time as f64 / first as f64 - 1.0) * 100.0;
            format!("  {name} {:9.1} us ({change:+5.1} %)", *time as f64 / 1e3)
        });
        println!("{what:34}{}", line.collect::<String>());
        Ok(())
    }

    fn far(&self, formats: &[Format]) -> Answer<()> {
        for &format in formats {
            for (n, k) in [
                (576, 576),
                (1536, 576),
                (49_152, 576),
                (2048, 2048),
                (4096, 4096),
                (14_336, 4096),
                (4096, 14_336),
            ] {
                let k = k / format.block_len() as u64 * format.block_len() as u64;
                let bytes = n * format.row_bytes(k).unwrap_or(0);
                let (x, out) = (self.span(k * 4, 0x3c)?, self.span(n * 4, 0)?);
                let weights: Answer<Vec<Span>> =
                    (0..COLD / bytes + 1).map(|_| self.span(bytes, 0x2c)).collect();
                let weights = weights?;
                let problem = Problem { m: 1, n, k, ..Problem::default() };
                for tier in ["Avx512", "Avx2"] {
                    let form = |far: &str| -> Answer<Vec<Form>> {
                        let name = format!("{}WaveMatVec{far}{tier}", short(format));
                        let one = |weight: &Span| {
                            let args = vec![Some(x.clone()), Some(weight.clone()), None, Some(out.clone())];
                            Ok(vec![self.work(&name, problem, &[0; 8], args)?])
                        };
                        weights.iter().map(one).collect()
                    };
                    let what = format!("{} {n} x {k} {tier}", format.name());
                    self.time(&what, vec![("next", form("")?), ("far", form("Far")?)])?;
                }
            }
        }
        Ok(())
    }

    fn qkv(&self, formats: &[Format]) -> Answer<()> {
        for &format in formats {
            for (m, n, aside, k) in [
                (1, 576, 192, 576),
                (4, 576, 192, 576),
                (64, 576, 192, 576),
                (1, 2048, 512, 2048),
                (1, 4096, 1024, 4096),
                (4, 4096, 1024, 4096),
                (64, 4096, 1024, 4096),
            ] {
                let k = k / format.block_len() as u64 * format.block_len() as u64;
                let kind = match m {
                    1 => "WaveMatVec{}",
                    2..=8 => "WaveMatVec{}Cols",
                    _ => "PanelGemm{}",
                };
                let name = |part: &str| format!("{}{}Avx512", short(format), kind.replace("{}", part));
                let x = self.span(m * k * 4, 0x3c)?;
                let bytes = |n: u64| n * format.row_bytes(k).unwrap_or(0);
                let all = bytes(n + 2 * aside);
                let copies = if m > 8 { 2 } else { COLD / all + 1 };
                let outs: Answer<Vec<Span>> =
                    [n, aside, aside].iter().map(|n| self.span(m * n * 4, 0)).collect();
                let outs = outs?;
                let (mut together, mut apart) = (Vec::new(), Vec::new());
                for _ in 0..copies {
                    let weights: Answer<Vec<Span>> =
                        [n, aside, aside].iter().map(|&n| self.span(bytes(n), 0x2c)).collect();
                    let weights = weights?;
                    let some = |spans: &[Span]| spans.iter().cloned().map(Some).collect::<Vec<_>>();
                    let args = [vec![Some(x.clone())], some(&weights), vec![None; 3], some(&outs)].concat();
                    let problem = Problem { m, n, k, batch: 0, aux: aside };
                    together.push(vec![self.work(&name("Qkv"), problem, &[0; 24], args)?]);
                    let one = |(at, n): (usize, u64)| {
                        let args =
                            vec![Some(x.clone()), Some(weights[at].clone()), None, Some(outs[at].clone())];
                        self.work(&name(""), Problem { m, n, k, ..Problem::default() }, &[0; 8], args)
                    };
                    apart.push([n, aside, aside].into_iter().enumerate().map(one).collect::<Answer<Form>>()?);
                }
                let what = format!("{} M {m} {n}+2x{aside} x {k}", format.name());
                self.time(&what, vec![("apart", apart), ("together", together)])?;
            }
        }
        Ok(())
    }

    fn attention(&self) -> Answer<()> {
        for (n_head, n_head_kv, head_dim) in [(9u32, 3u32, 64u32), (32, 8, 128)] {
            for (seqs, queries, kv_len) in [
                (1u32, 17u32, 17u32),
                (1, 20, 1040),
                (1, 64, 64),
                (1, 512, 512),
                (1, 512, 2048),
                (17, 1, 256),
                (24, 1, 1024),
                (8, 4, 512),
            ] {
                let width = u64::from(n_head * head_dim);
                let max_blocks = kv_len.div_ceil(16);
                let m = seqs * queries;
                let plane = block_bytes(n_head_kv, head_dim) * u64::from(seqs * max_blocks);
                let starts: Vec<u32> = (0..=seqs).map(|seq| seq * queries).collect();
                let table: Vec<u32> = (0..seqs * max_blocks).collect();
                let args = vec![
                    Some(self.span(u64::from(m) * width * 4, 0x3c)?),
                    Some(self.span(plane, 0x2c)?),
                    Some(self.span(plane, 0x2c)?),
                    Some(self.words(&starts)?),
                    Some(self.words(&vec![kv_len; seqs as usize])?),
                    Some(self.words(&table)?),
                    None,
                    Some(self.span(u64::from(m) * width * 4, 0)?),
                ];
                let scalars = AttentionScalars {
                    n_head,
                    n_head_kv,
                    head_dim,
                    max_blocks,
                    scale: 0.1,
                    softcap: 0.0,
                    window: 0,
                    causal: 1,
                };
                let problem = Problem { m: m.into(), n: width, k: kv_len.into(), batch: seqs.into(), aux: 0 };
                let form = |name: &str| -> Answer<Vec<Form>> {
                    Ok(vec![vec![self.work(name, problem, bytemuck::bytes_of(&scalars), args.clone())?]])
                };
                let what = format!("{n_head}/{n_head_kv} x {head_dim}, {seqs} x {queries} of {kv_len}");
                let forms =
                    vec![("tile", form("attnFlashTileGqaAvx512")?), ("rows", form("attnRowsGqaAvx512")?)];
                self.time(&what, forms)?;
            }
        }
        Ok(())
    }
}

fn short(format: Format) -> String {
    format.name().to_lowercase().replace('_', "")
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}
