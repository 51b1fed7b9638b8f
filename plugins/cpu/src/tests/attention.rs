//! Attention and rope over scattered blocks, several sequences, every form.

use cajeta_plugin_api::Device;
use cajeta_plugin_api::abi::Problem;
use cajeta_plugin_api::catalog::kv;
use cajeta_plugin_api::catalog::op::{Op, attr};
use cajeta_plugin_api::catalog::scalars::{AttentionScalars, RopeAppendScalars};

use super::Launch;
use super::launch::{Random, name, rows};
use crate::CpuDevice;

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Sequences as (queries, kv_len), and what is asked of the op.
struct Case {
    seqs: Vec<(u32, u32)>,
    heads: (u32, u32, u32),
    causal: u32,
    window: u32,
    softcap: f32,
    sinks: bool,
}

fn attention(row: usize, case: &Case, random: &mut Random) -> Launch {
    let (n_head, n_head_kv, head_dim) = case.heads;
    let max_blocks = case.seqs.iter().map(|(_, len)| len.div_ceil(16)).max().unwrap() + 1;
    let n_blocks = case.seqs.len() as u32 * max_blocks;
    // Each sequence's blocks are scattered over the planes.
    let mut table: Vec<u32> = (0..n_blocks).collect();
    for i in (1..table.len()).rev() {
        table.swap(i, random.word() as usize % (i + 1));
    }
    let elements = kv::block_elements(n_head_kv, head_dim) as usize * n_blocks as usize;
    let plane = || -> Vec<u8> { vec![0xff; elements * 2] };
    let (mut k, mut v) = (plane(), plane());
    for (seq, &(_, len)) in case.seqs.iter().enumerate() {
        for position in 0..len {
            let block = table[seq * max_blocks as usize + position as usize / 16];
            for head in 0..n_head_kv {
                let at = kv::element(block, head, position % 16, n_head_kv, head_dim) as usize;
                for i in at..at + head_dim as usize {
                    k[2 * i..2 * i + 2].copy_from_slice(&half::f16::from_f32(random.unit()).to_le_bytes());
                    v[2 * i..2 * i + 2].copy_from_slice(&half::f16::from_f32(random.unit()).to_le_bytes());
                }
            }
        }
    }
    let mut starts = vec![0];
    for (queries, _) in &case.seqs {
        starts.push(starts.last().unwrap() + queries);
    }
    let m = *starts.last().unwrap() as usize;
    let width = (n_head * head_dim) as usize;
    let lens: Vec<u32> = case.seqs.iter().map(|(_, len)| *len).collect();
    let scalars = AttentionScalars {
        n_head,
        n_head_kv,
        head_dim,
        max_blocks,
        scale: 0.7,
        softcap: case.softcap,
        window: case.window,
        causal: case.causal,
    };
    let mut asked = 0;
    for (is, bit) in
        [(case.window != 0, attr::WINDOW), (case.softcap != 0.0, attr::SOFTCAP), (case.sinks, attr::SINKS)]
    {
        asked |= if is { bit } else { 0 };
    }
    let bucket = u64::from(*lens.iter().max().unwrap()).next_multiple_of(128);
    Launch {
        row,
        problem: Problem { m: m as u64, n: width as u64, k: bucket, batch: lens.len() as u64, aux: 0 },
        scalars: bytemuck::bytes_of(&scalars).to_vec(),
        args: vec![
            Some(random.floats(m * width)),
            Some(k),
            Some(v),
            Some(words(&starts)),
            Some(words(&lens)),
            Some(words(&table)),
            case.sinks.then(|| random.floats(n_head as usize)),
            Some(vec![0xff; m * width * 4]),
        ],
        attrs: Some(vec![asked]),
    }
}

fn plain(seqs: &[(u32, u32)], heads: (u32, u32, u32)) -> Case {
    Case { seqs: seqs.to_vec(), heads, causal: 1, window: 0, softcap: 0.0, sinks: false }
}

#[test]
fn attention_is_the_oracles_in_every_tier() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(3);
    let cases = [
        plain(&[(1, 1)], (3, 1, 16)),
        plain(&[(1, 300), (1, 5), (1, 600)], (9, 3, 64)),
        plain(&[(5, 5), (0, 9), (2, 270)], (4, 4, 32)),
        plain(&[(40, 40), (1, 77), (30, 200)], (9, 3, 64)),
        plain(&[(65, 130)], (8, 1, 128)),
        plain(&[(20, 33)], (2, 1, 256)),
        plain(&[(17, 17)], (16, 1, 80)),
        Case { window: 20, softcap: 2.0, sinks: true, ..plain(&[(1, 400), (3, 90)], (6, 2, 96)) },
        Case { window: 33, softcap: 5.0, sinks: true, ..plain(&[(70, 190), (9, 9)], (6, 2, 64)) },
        Case { causal: 0, ..plain(&[(20, 50), (3, 20)], (4, 2, 64)) },
        Case { causal: 0, ..plain(&[(2, 50)], (4, 2, 64)) },
    ];
    for row in rows(|row| row.steps[0].op == Op::Attention.id()) {
        for case in &cases {
            attention(row, case, &mut random).agree(&device, 1e-5);
        }
    }
}

#[test]
fn values_the_state_may_not_hold_are_refused_not_followed() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(4);
    for row in rows(|row| row.steps[0].op == Op::Attention.id()) {
        for many in [1, 30] {
            for (arg, at, value, said) in [
                (5, 0, u32::MAX, "block 4294967295 is out of range"),
                (4, 0, u32::MAX, "kv_len 4294967295"),
                (4, 0, 0, "kv_len 0"),
                (3, 1, u32::MAX, "owns rows"),
            ] {
                let mut launch = attention(row, &plain(&[(many, 40)], (4, 2, 32)), &mut random);
                launch.args[arg].as_mut().unwrap()[4 * at..4 * at + 4].copy_from_slice(&value.to_le_bytes());
                let fault = launch.on_device(&device, true).unwrap_err();
                assert!(fault.text.contains(said) && fault.text.contains(name(row)), "{fault}");
            }
        }
    }
}

fn rope(row: usize, random: &mut Random, positions: &[u32], factors: bool, yarn: bool) -> Launch {
    let m = positions.len();
    let (n_head, n_head_kv, head_dim) = (6u32, 2u32, 64u32);
    let max_blocks = positions.iter().max().unwrap() / 16 + 1;
    let seqs: Vec<u32> = (0..m as u32).collect();
    let table: Vec<u32> = (0..m as u32 * max_blocks).rev().collect();
    let scalars = RopeAppendScalars {
        n_head,
        n_head_kv,
        head_dim,
        rope_dim: 48,
        max_blocks,
        original_context: if yarn { 4096 } else { 0 },
        base: 10000.0,
        freq_scale: 0.5,
        attn_factor: if yarn { 1.2 } else { 1.0 },
        ext_factor: if yarn { 1.0 } else { 0.0 },
        beta_fast: 32.0,
        beta_slow: 1.0,
    };
    let plane = vec![0u8; kv::block_bytes(n_head_kv, head_dim) as usize * table.len()];
    let (width_q, width_k) = ((n_head * head_dim) as usize, (n_head_kv * head_dim) as usize);
    let pairs = if name(row).contains("Pairs") { attr::ROPE_PAIRS } else { 0 };
    let mut asked = pairs;
    asked |= if factors { attr::ROPE_FACTORS } else { 0 };
    asked |= if yarn { attr::ROPE_YARN } else { 0 };
    let divisors: Vec<u8> = (0..24).flat_map(|i| (1.0 + i as f32 / 8.0).to_le_bytes()).collect();
    Launch {
        row,
        problem: Problem { m: m as u64, n: width_q as u64, k: width_k as u64, batch: m as u64, aux: 0 },
        scalars: bytemuck::bytes_of(&scalars).to_vec(),
        args: vec![
            Some(random.floats(m * width_q)),
            Some(random.floats(m * width_k)),
            Some(random.floats(m * width_k)),
            Some(words(positions)),
            Some(words(&seqs)),
            Some(words(&table)),
            factors.then_some(divisors),
            Some(plane.clone()),
            Some(plane),
        ],
        attrs: Some(vec![asked]),
    }
}

#[test]
fn rope_is_the_oracles_and_refuses_places_outside() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(5);
    for row in rows(|row| row.steps[0].op == Op::RopeAppend.id()) {
        for (factors, yarn) in [(false, false), (true, false), (true, true)] {
            for positions in [&[0u32][..], &[17, 0, 5000, 31], &[1, 2, 3, 4, 5, 6, 7, 900]] {
                rope(row, &mut random, positions, factors, yarn).agree(&device, 2e-6);
            }
        }
        for (arg, said) in [(3, "position"), (4, "sequence"), (5, "block")] {
            let mut launch = rope(row, &mut random, &[3], false, false);
            launch.args[arg].as_mut().unwrap()[..4].copy_from_slice(&9_999_999u32.to_le_bytes());
            let fault = launch.on_device(&device, true).unwrap_err();
            assert!(fault.text.contains(said) && fault.text.contains("out of range"), "{fault}");
        }
    }
}
