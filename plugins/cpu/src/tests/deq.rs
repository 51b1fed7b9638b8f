//! Widened weights: what they are multiplied to is what the blocks are, bit by bit.

use cajeta_plugin_api::abi::{LayoutId, Problem, Regime, Row, Shape};
use cajeta_plugin_api::{Backend, Device};

use super::Launch;
use super::launch::{Random, name, rows};
use super::products::{is_product, launch};
use crate::{CpuBackend, CpuDevice};

fn own(arg: &cajeta_plugin_api::abi::ArgSpec) -> bool {
    arg.layout.0 >= LayoutId::OWN.0
}

/// The row that makes argument `arg` of another.
fn relayout(row: &Row, arg: usize) -> usize {
    let wanted = &row.args[arg];
    let makes = |other: &Row| {
        other.regime == Regime::BIND
            && other.args[1].layout == wanted.layout
            && other.args[1].format == wanted.format
    };
    rows(makes)[0]
}

/// A weight widened by the row that does that.
fn widened(device: &CpuDevice, row: usize, source: &[u8], n: u64, k: u64) -> Vec<u8> {
    let out = CpuBackend::rows()[row].args[1];
    let bytes = CpuBackend::layout_bytes(out.layout, &[Shape { format: out.format, rows: n, width: k }]);
    let args = vec![Some(source.to_vec()), Some(vec![0xff; bytes.unwrap() as usize])];
    let problem = Problem { n, k, ..Problem::default() };
    let made = Launch { row, problem, scalars: Vec::new(), args, attrs: None }.on_device(device, true);
    made.unwrap_or_else(|fault| panic!("{fault}"))[1].clone().unwrap()
}

/// The row over blocks that a row over widened weights stands beside.
fn beside(row: usize) -> usize {
    let over_blocks = name(row).replace("DeqGemm", "PanelGemm");
    rows(|row| row.name.as_str() == over_blocks)[0]
}

fn over_widened() -> Vec<usize> {
    rows(|row| row.regime == Regime::PREFILL_BATCH && row.args.iter().any(own))
}

#[test]
fn widened_weights_give_what_blocks_give() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(21);
    let found = over_widened();
    assert!(found.iter().any(|&row| name(row) == "q4kDeqGemm"), "the portable tier has them");
    for row in found {
        let spec = &CpuBackend::rows()[row];
        for (m, n, k) in [(9, 13, 256), (33, 25, 1280)] {
            let blocks = launch(beside(row), &mut random, m, n, k, true, 0.0);
            let expected = blocks.on_device(&device, true).unwrap();
            let (sources, aux) = (blocks.args.clone(), blocks.problem.aux);
            let mut wide = Launch { row, ..blocks };
            for arg in (0..spec.args.len()).filter(|&arg| own(&spec.args[arg])) {
                let rows_of = if arg > 1 && aux > 0 { aux } else { n as u64 };
                let source = sources[arg].as_deref().unwrap();
                wide.args[arg] = Some(widened(&device, relayout(spec, arg), source, rows_of, k as u64));
            }
            let got = wide.on_device(&device, true).unwrap_or_else(|fault| panic!("{fault}"));
            for (arg, spec) in spec.args.iter().enumerate().filter(|(_, spec)| !own(spec)) {
                assert_eq!(got[arg], expected[arg], "{}, argument {arg} {:?}", name(row), spec.access);
            }
        }
    }
}

#[test]
fn plain_numbers_have_ragged_rows() {
    let device = CpuDevice::open(0).unwrap();
    let mut random = Random(22);
    let ragged = |row: &usize| matches!(CpuBackend::rows()[*row].args[1].format.0, 1 | 30);
    for row in over_widened().into_iter().filter(ragged) {
        let spec = &CpuBackend::rows()[row];
        if spec.steps.len() > 1 {
            continue;
        }
        let blocks = launch(beside(row), &mut random, 20, 7, 47, false, 0.0);
        let expected = blocks.on_device(&device, true).unwrap();
        let mut wide = Launch { row, ..blocks };
        let source = wide.args[1].clone().unwrap();
        wide.args[1] = Some(widened(&device, relayout(spec, 1), &source, 7, 47));
        assert_eq!(wide.on_device(&device, true).unwrap()[3], expected[3], "{}", name(row));
    }
}

#[test]
fn few_rows_and_short_memory_are_refused() {
    let device = CpuDevice::open(0).unwrap();
    let row = rows(|row| row.name.as_str() == "q4kDeqGemm")[0];
    assert!(is_product(&CpuBackend::rows()[beside(row)]) && !is_product(&CpuBackend::rows()[row]));
    let blocks = launch(beside(row), &mut Random(1), 9, 8, 256, false, 0.0);
    let mut wide = Launch { row, ..blocks };
    // Four rows a tile: eight rows take eight.
    wide.args[1] = Some(vec![0; 8 * 256 * 4 - 4]);
    let fault = wide.on_device(&device, true).unwrap_err();
    assert!(fault.text.contains("q4kDeqGemm") && fault.text.contains("8192"), "{fault}");
    wide.args[1] = Some(vec![0; 8 * 256 * 4]);
    assert!(wide.on_device(&device, true).is_ok());
    wide.problem.m = 8;
    let fault = wide.on_device(&device, true).unwrap_err();
    assert!(fault.text.contains("from 9"), "{fault}");
}
