//! The ops over rows, the tail, and queues.

use std::sync::Arc;
use std::time::Duration;

use cajeta_plugin_api::abi::{MemoryKind, Problem, Row, Ticket};
use cajeta_plugin_api::catalog::op::{Op, attr};
use cajeta_plugin_api::catalog::scalars::{AdvanceScalars, EmbedScalars, GluScalars, NormScalars};
use cajeta_plugin_api::catalog::state::{SampleParams, StepLayout};
use cajeta_plugin_api::{BufferSpan, Device, Poll, Work};

use super::Launch;
use super::launch::{Random, rows};
use crate::{Buffer, CpuBackend, CpuDevice};
use cajeta_plugin_api::Backend;
use cajeta_plugin_api::catalog::quant::Format;

fn of(op: Op) -> impl Fn(&Row) -> bool {
    move |row| row.steps.len() == 1 && row.steps[0].op == op.id()
}

fn problem(m: usize, n: usize, k: usize) -> Problem {
    Problem { m: m as u64, n: n as u64, k: k as u64, ..Problem::default() }
}

#[test]
fn row_ops_are_the_oracles() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(11);
    for (m, k) in [(1, 1), (3, 37), (1, 576), (40, 1000)] {
        let out = || Some(vec![0xff; m * k * 4]);
        for row in rows(of(Op::Norm)) {
            let scalars = NormScalars { eps: 1e-5, offset: 1.0 };
            let args = vec![Some(random.floats(m * k)), Some(random.floats(k)), out()];
            let scalars = bytemuck::bytes_of(&scalars).to_vec();
            Launch { row, problem: problem(m, 0, k), scalars, args, attrs: None }.agree(&device, 1e-6);
        }
        for row in rows(of(Op::Add)) {
            let args = vec![Some(random.floats(m * k)), Some(random.floats(m * k)), out()];
            Launch { row, problem: problem(m, 0, k), scalars: vec![], args, attrs: None }.agree(&device, 0.0);
        }
        for row in rows(of(Op::Glu)) {
            let wide = |random: &mut Random| -> Vec<u8> {
                (0..m * k).flat_map(|_| (random.unit() * 20.0).to_le_bytes()).collect()
            };
            let args = vec![Some(wide(&mut random)), Some(random.floats(m * k)), out()];
            let scalars = bytemuck::bytes_of(&GluScalars { reserved: [0; 2] }).to_vec();
            Launch { row, problem: problem(m, 0, k), scalars, args, attrs: None }.agree(&device, 1e-6);
        }
        for row in rows(of(Op::Copy)) {
            let index: Vec<u8> = (0..m as u32).flat_map(|i| (m as u32 - i).to_le_bytes()).collect();
            let args = vec![Some(random.floats(m * k)), Some(index), out()];
            Launch { row, problem: problem(m, m, k), scalars: vec![], args, attrs: None }.agree(&device, 0.0);
        }
    }
}

#[test]
fn embed_is_the_oracles_with_nan_past_the_table() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(12);
    for row in rows(of(Op::Embed)) {
        let format = Format::from_id(CpuBackend::rows()[row].args[1].format.0).unwrap();
        let tokens: Vec<u8> = [3u32, 9, 0, u32::MAX].iter().flat_map(|t| t.to_le_bytes()).collect();
        let args = vec![Some(tokens), Some(random.weight(format, 9 * 256)), Some(vec![0; 4 * 1024])];
        let scalars = bytemuck::bytes_of(&EmbedScalars { scale: 2.5, reserved: 0 }).to_vec();
        Launch { row, problem: problem(4, 9, 256), scalars, args, attrs: Some(vec![attr::SCALE]) }
            .agree(&device, 0.0);
    }
}

#[test]
fn picks_are_the_oracles() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(13);
    for n in [1usize, 40, 1003] {
        let m = 4;
        let mut logits: Vec<f32> = (0..m * n).map(|_| (random.unit() * 30.0).round()).collect();
        // A row of NaN, a row with NaN first, a row of minus infinity.
        logits[..n].fill(f32::NAN);
        logits[n] = f32::NAN;
        logits[2 * n..3 * n].fill(f32::NEG_INFINITY);
        let logits: Vec<u8> = logits.into_iter().flat_map(f32::to_le_bytes).collect();
        for row in rows(of(Op::Argmax)) {
            let args = vec![Some(logits.clone()), Some(vec![0; 16])];
            Launch { row, problem: problem(m, n, 0), scalars: vec![], args, attrs: None }.agree(&device, 0.0);
        }
        for row in rows(of(Op::Sample)) {
            let params = [0.0, 0.7, 1.0, 1.5].map(|temperature| SampleParams {
                temperature,
                top_p: 0.9,
                seed_lo: random.word(),
                ..SampleParams::GREEDY
            });
            let args =
                vec![Some(logits.clone()), Some(bytemuck::cast_slice(&params).to_vec()), Some(vec![0; 16])];
            Launch { row, problem: problem(m, n, 0), scalars: vec![], args, attrs: None }.agree(&device, 0.0);
        }
    }
}

#[test]
fn advance_is_the_oracles() {
    let device = CpuDevice::open(0).unwrap();
    let layout = StepLayout { max_rows: 4, max_seqs: 3, max_blocks: 2 };
    let mut random = Random(14);
    for row in rows(of(Op::Advance)) {
        let state: Vec<u8> = (0..layout.total_bytes()).map(|_| random.word() as u8).collect();
        let scalars = AdvanceScalars { max_rows: 4, max_seqs: 3, max_blocks: 2, reserved: 0 };
        let scalars = bytemuck::bytes_of(&scalars).to_vec();
        Launch { row, problem: problem(2, 0, 0), scalars, args: vec![Some(state)], attrs: None }
            .agree(&device, 0.0);
    }
}

#[test]
fn queues_keep_order_report_spans_and_honour_the_timeout() {
    let device = CpuDevice::open(0).unwrap();
    let k = 1024usize;
    let row = rows(of(Op::Add))[0];
    let bytes = (k * 4) as u64;
    let alloc = || Arc::new(device.alloc(bytes, MemoryKind::DEVICE, true).unwrap());
    let (a, b) = (alloc(), alloc());
    let span = |buffer: &Arc<Buffer>| BufferSpan { buffer: Arc::clone(buffer), offset: 0, len: bytes };
    let work = || Work {
        row,
        split: 1,
        problem: problem(1, 0, k),
        args: vec![Some(span(&a)), Some(span(&b)), Some(span(&a))],
        scalars: vec![],
        scratch: None,
        semaphores: None,
    };
    let list = Arc::new(device.list((0..3).map(|_| work()).collect()).unwrap());
    let mut queue = device.queue().unwrap();
    let ones = vec![1.0f32; k];
    let mut back = vec![0.0f32; k];
    // SAFETY: the host memory outlives the polls below.
    let last = unsafe {
        device.upload(&mut queue, span(&a), ones.as_ptr().cast()).unwrap();
        device.upload(&mut queue, span(&b), ones.as_ptr().cast()).unwrap();
        device.submit(&mut queue, &list, true).unwrap();
        device.download(&mut queue, span(&a), back.as_mut_ptr().cast()).unwrap()
    };
    assert_eq!(last, Ticket(4));
    let mut polls = 0;
    while device.poll(&mut queue, last, Duration::ZERO).unwrap() == Poll::Pending {
        polls += 1;
    }
    // Two uploads and three launches before the download.
    assert_eq!(polls, 5);
    assert_eq!(back, vec![4.0f32; k]);
    let spans = device.spans(&mut queue, Ticket(3)).unwrap();
    assert_eq!(
        spans.iter().map(|span| (span.launch, span.row)).collect::<Vec<_>>(),
        [0, 1, 2].map(|l| (l, row as u32))
    );
    assert!(device.elapsed(&mut queue, Ticket(1), Ticket(4)).unwrap() > 0);
    assert!(device.poll(&mut queue, Ticket(5), Duration::ZERO).is_err());
    assert!(device.spans(&mut queue, Ticket(4)).is_err());
}
