//! Times the products: GB/s of weights and GFLOP/s per format and number of rows.
//!
//! `cargo run --release -p cajeta-backend-cpu --example mat -- [FORMAT] [N K] [M …]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use cajeta_backend_cpu::{Buffer, CpuBackend, CpuDevice};
use cajeta_plugin_api::abi::{FormatId, LayoutId, MemoryKind, Problem, Regime, Shape};
use cajeta_plugin_api::catalog::op::Op;
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::{Answer, Backend, BufferSpan, Device, Work};

fn main() -> Answer<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let only = words.first().and_then(|word| Format::from_name(word));
    if only.is_some() {
        words.remove(0);
    }
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let (n, k) = match numbers[..] {
        [n, k, ..] => (n, k),
        _ => (4096, 4096),
    };
    let rows_of_x: &[u64] =
        numbers.get(2..).filter(|rest| !rest.is_empty()).unwrap_or(&[1, 2, 4, 8, 16, 64, 512]);
    let device = CpuDevice::open(0)?;
    for format in Format::ALL.iter().copied().filter(|format| format.is_decodable()) {
        if only.is_some_and(|only| only != format) {
            continue;
        }
        for &m in rows_of_x {
            for wide in [false, true] {
                measure(&device, format, m, n, k, wide)?;
            }
        }
    }
    Ok(())
}

/// The best row this machine can run, over blocks or over widened weights.
fn best_row(format: Format, regime: Regime, wide: bool) -> Option<usize> {
    let rows = CpuBackend::rows().iter().enumerate();
    let usable = rows.filter(|(_, row)| {
        row.steps.len() == 1
            && row.steps[0].op == Op::Matmul.id()
            && row.regime == regime
            && row.args[1].format.0 == format.id()
            && (row.args[1].layout.0 >= LayoutId::OWN.0) == wide
            && row.needs.iter().all(|need| CpuBackend::supports(0, need.capability) == Ok(true))
    });
    usable.max_by_key(|(_, row)| row.priority).map(|(index, _)| index)
}

fn measure(device: &CpuDevice, format: Format, m: u64, n: u64, k: u64, wide: bool) -> Answer<()> {
    let regime = match m {
        1 => Regime::DECODE_ROW,
        2..=8 => Regime::DECODE_COLS,
        _ => Regime::PREFILL_BATCH,
    };
    let Some(row) = best_row(format, regime, wide) else { return Ok(()) };
    let problem = Problem { m, n, k, ..Problem::default() };
    let shape = Shape { format: FormatId(format.id()), rows: n, width: k };
    let weight_bytes = match CpuBackend::rows()[row].args[1].layout {
        LayoutId::GGUF => n * format.row_bytes(k).unwrap_or(0),
        layout => CpuBackend::layout_bytes(layout, &[shape])?,
    };
    // Enough copies of the weight that none is in a cache when its turn comes.
    let copies = if m <= 16 { (256 << 20) / weight_bytes + 1 } else { 1 };
    let span = |bytes: u64, fill: u8| -> Answer<BufferSpan<Buffer>> {
        let buffer = device.alloc(bytes, MemoryKind::DEVICE, false)?;
        let start = device.map(&buffer)?;
        // SAFETY: the buffer is new, and `bytes` long.
        unsafe { start.write_bytes(fill, bytes as usize) };
        Ok(BufferSpan { buffer: Arc::new(buffer), offset: 0, len: bytes })
    };
    let facts = CpuBackend::devices()?[0];
    let geometry = CpuBackend::geometry(row, &facts, &problem, &[0; 8])?;
    let x = span(m * k * 4, 0x3c)?;
    let out = span(m * n * 4, 0)?;
    let scratch = if geometry.scratch_bytes > 0 { Some(span(geometry.scratch_bytes, 0)?) } else { None };
    let mut works = Vec::new();
    for _ in 0..copies {
        let weight = span(weight_bytes, 0x2c)?;
        works.push(Work {
            row,
            split: 1,
            problem,
            args: vec![Some(x.clone()), Some(weight), None, Some(out.clone())],
            scalars: vec![0; 8],
            scratch: scratch.clone(),
            semaphores: None,
        });
    }
    let list = Arc::new(device.list(works)?);
    let mut queue = device.queue()?;
    // The quickest launch of many: what the machine does when it does nothing else.
    let mut best = u64::MAX;
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(600) {
        let ticket = device.submit(&mut queue, &list, true)?;
        device.poll(&mut queue, ticket, Duration::MAX)?;
        let spans = device.spans(&mut queue, ticket)?;
        best = spans.iter().map(|span| span.duration_ns).chain([best]).min().unwrap_or(best);
    }
    let best = best as f64 / 1e9;
    println!(
        "{:28} M {m:4}  {:9.1} us  {:6.1} GB/s  {:7.1} GFLOP/s",
        CpuBackend::rows()[row].name,
        best * 1e6,
        weight_bytes as f64 / best / 1e9,
        2.0 * (m * n * k) as f64 / best / 1e9
    );
    Ok(())
}
