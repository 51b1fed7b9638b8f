//! Products: every format, tier, regime and ending, over odd shapes.

use cajeta_plugin_api::Device;
use cajeta_plugin_api::abi::{LayoutId, Problem, Regime, Row};
use cajeta_plugin_api::catalog::contract;
use cajeta_plugin_api::catalog::op::Op;
use cajeta_plugin_api::catalog::quant::Format;
use cajeta_plugin_api::catalog::scalars::{GluScalars, MatmulScalars};

use super::Launch;
use super::launch::{Random, name, rows};
use crate::{CpuBackend, CpuDevice};
use cajeta_plugin_api::Backend;

/// Whether it is products of weights in the file's own blocks.
pub(super) fn is_product(row: &Row) -> bool {
    let blocks = row.args.iter().all(|arg| arg.layout.0 < LayoutId::OWN.0);
    blocks && row.steps.first().is_some_and(|step| step.op == Op::Matmul.id())
}

/// The step and operand that first take an argument.
fn taken(row: &Row, arg: usize) -> (usize, &'static str) {
    let steps = row.steps.iter().enumerate();
    let mut wires = steps.flat_map(|(at, step)| {
        let operands = contract::operands(Op::from_id(step.op).unwrap());
        step.operands.iter().zip(operands).map(move |(wire, operand)| (wire, at, operand.name))
    });
    let found = wires.find(|(wire, ..)| wire.as_arg() == Some(arg as u32));
    found.map(|(_, step, name)| (step, name)).unwrap()
}

pub(super) fn launch(
    row: usize,
    random: &mut Random,
    m: usize,
    n: usize,
    k: usize,
    bias: bool,
    cap: f32,
) -> Launch {
    let spec = &CpuBackend::rows()[row];
    let scalars = MatmulScalars { softcap: cap, reserved: 0 };
    let mut bytes = Vec::new();
    // Keys and values are narrower than queries.
    let qkv = spec.steps.iter().all(|step| step.op == Op::Matmul.id()) && spec.steps.len() == 3;
    let aside = if qkv { n / 2 + 1 } else { n };
    let args = (0..spec.args.len()).map(|index| {
        let (step, operand) = taken(spec, index);
        let n = if step == 0 { n } else { aside };
        match operand {
            "x" => Some(random.floats(m * k)),
            "weight" => Some(random.weight(Format::from_id(spec.args[index].format.0).unwrap(), n * k)),
            "bias" => bias.then(|| random.floats(n)),
            "a" => Some(random.floats(m * n)),
            _ => Some(vec![0xff; m * n * 4]),
        }
    });
    let args = args.collect();
    for step in spec.steps.iter() {
        match Op::from_id(step.op) {
            Some(Op::Matmul) => bytes.extend(bytemuck::bytes_of(&scalars)),
            Some(Op::Glu) => bytes.extend(bytemuck::bytes_of(&GluScalars { reserved: [0; 2] })),
            _ => {}
        }
    }
    let attrs = spec.steps.iter().map(|step| {
        let absent = if cap == 0.0 { cajeta_plugin_api::catalog::op::attr::SOFTCAP } else { 0 };
        step.attrs & !absent
    });
    let aux = if qkv { aside as u64 } else { 0 };
    let problem = Problem { m: m as u64, n: n as u64, k: k as u64, batch: 0, aux };
    Launch { row, problem, scalars: bytes, args, attrs: Some(attrs.collect()) }
}

/// Shapes that reach every kernel: groups and their remainders, tiles and their
/// padding, several depths, bands and panels.
const SHAPES: [(usize, usize, usize); 12] = [
    (1, 1, 256),
    (1, 37, 512),
    (1, 130, 768),
    (2, 9, 256),
    (3, 17, 512),
    (4, 64, 256),
    (7, 13, 256),
    (9, 25, 256),
    (16, 50, 512),
    (33, 101, 1280),
    (70, 11, 256),
    (530, 13, 256),
];

#[test]
fn products_are_the_oracles_in_every_tier_and_format() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(7);
    for row in rows(is_product) {
        let spec = &CpuBackend::rows()[row];
        let most = spec
            .shape_gates
            .iter()
            .find(|gate| gate.name.as_str().starts_with("M <="))
            .map(|gate| gate.values[0]);
        for (index, &(m, n, k)) in SHAPES.iter().enumerate() {
            if most.is_some_and(|most| m as u64 > most) {
                continue;
            }
            let cap = if spec.steps.len() == 1 && index % 4 == 3 { 3.0 } else { 0.0 };
            launch(row, &mut random, m, n, k, index % 2 == 1, cap).agree(&device, 3e-6 * (k as f32).sqrt());
        }
    }
}

#[test]
fn plain_numbers_have_ragged_rows() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(8);
    let ragged =
        |row: &Row| is_product(row) && row.args.get(1).is_some_and(|arg| matches!(arg.format.0, 0 | 1 | 30));
    for row in rows(ragged) {
        for (m, n, k) in [(1, 5, 1), (1, 6, 33), (20, 7, 47)] {
            let cols = name(row).contains("MatVec") && m > 1 && !name(row).contains("Cols");
            if !cols {
                launch(row, &mut random, m, n, k, false, 0.0).agree(&device, 1e-5);
            }
        }
    }
}

#[test]
fn small_blocks_come_in_any_number() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(10);
    let small = |row: &Row| {
        let gate = row.shape_gates.iter().find(|gate| gate.name.as_str().starts_with("K %"));
        is_product(row) && gate.is_some_and(|gate| gate.values[0] == 32)
    };
    for row in rows(small) {
        for blocks in [1, 3, 5, 14, 67] {
            launch(row, &mut random, 1, 9, 32 * blocks, false, 0.0).agree(&device, 1e-4);
        }
    }
}

#[test]
fn a_row_of_activations_does_not_depend_on_the_rows_beside_it() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(9);
    for row in rows(|row| is_product(row) && row.steps.len() == 1 && row.name.as_str().contains("Cols")) {
        let together = launch(row, &mut random, 7, 40, 512, false, 0.0);
        let all = together.on_device(&device, true).unwrap()[3].clone().unwrap();
        for m in 0..7 {
            let mut alone = launch(row, &mut random, 1, 40, 512, false, 0.0);
            alone.args[1] = together.args[1].clone();
            alone.args[0] = together.args[0].as_ref().map(|x| x[m * 2048..(m + 1) * 2048].to_vec());
            let one = alone.on_device(&device, true).unwrap()[3].clone().unwrap();
            assert_eq!(one, all[m * 160..(m + 1) * 160], "{}", name(row));
        }
    }
}

#[test]
fn queries_keys_and_values_together_are_what_they_are_apart() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(12);
    for row in rows(|row| is_product(row) && row.name.as_str().contains("Qkv")) {
        let spec = &CpuBackend::rows()[row];
        let m = if spec.regime == Regime::DECODE_ROW { 1 } else { 9 };
        let together = launch(row, &mut random, m, 50, 512, true, 0.0);
        let all = together.on_device(&device, true).unwrap();
        for step in 0..3 {
            let alone = |row: &Row| {
                let one = row.steps.len() == 1 && is_product(row) && row.regime == spec.regime;
                one && row.args[1].format == spec.args[1 + step].format && row.priority + 1 == spec.priority
            };
            let problem = Problem { n: if step == 0 { 50 } else { 26 }, ..together.problem };
            let args = [0, 1 + step, 4 + step, 7 + step].map(|arg| together.args[arg].clone()).to_vec();
            let scalars = together.scalars[..8].to_vec();
            let single = Launch { row: rows(alone)[0], problem, scalars, args, attrs: None };
            let one = single.on_device(&device, true).unwrap();
            assert_eq!(one[3], all[7 + step], "{}, projection {step}", name(row));
        }
    }
}

#[test]
fn short_operands_are_refused_with_their_sizes() {
    let device = CpuDevice::open(0).unwrap();
    let row = rows(|row| row.name.as_str().starts_with("q4kWaveMatVec") && row.steps.len() == 1)[0];
    let mut short = launch(row, &mut Random(1), 1, 8, 512, false, 0.0);
    short.args[1].as_mut().unwrap().pop();
    let fault = short.on_device(&device, true).unwrap_err();
    assert!(fault.text.contains(name(row)), "{fault}");
    assert!(fault.text.contains("operand weight takes 2304 bytes, argument 1 spans 2303"), "{fault}");
}
