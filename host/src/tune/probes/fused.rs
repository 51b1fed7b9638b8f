//! Whether a fusion beats its parts: `colsSeg-gateup-28672x4096-b4.q4k` for segments of projections,
//! `fused.q4kPanelGemmAddAvx512.512x4096x4096` for the others.

use cajeta_abi::{ArgSpec, DtypeId, FormatId, Problem, Row, Step};
use cajeta_catalog::op::{Op, attr};
use cajeta_catalog::oracle::shapes::{row_ops, step_problems};
use cajeta_catalog::scalars::scalar_bytes;
use cajeta_plugin_host::Device;

use super::stand_ins::code_in_parts;
use crate::record::{Answered, Probe, Record};
use crate::tune::bench::{Form, Piece, RowProbe};
use crate::tune::declared::{first, is_alone, weight, weights};
use crate::tune::key::{self, Segment};
use crate::tune::site::Segments;
use crate::tune::tuning::{ArmId, Keep, Question, Timed, Tuning};
use crate::tune::{Found, KernelSource, TuneError};

/// The forms by name.
const FUSED: &str = "fused";
const IN_PARTS: &str = "in parts";

/// One step of a fusion as a launch of its own.
#[derive(Clone, PartialEq, Debug)]
pub struct Part {
    /// The row.
    pub row: usize,
    /// Its problem.
    pub problem: Problem,
    /// Its scalars.
    pub scalars: Vec<u8>,
}

/// The launches that do what a fusion does: for each step the first row of it alone that `admits` lets
/// through. Nothing when a step has none.
pub fn parts(
    rows: &[Row],
    fused: usize,
    problem: &Problem,
    scalars: &[u8],
    admits: &dyn Fn(&Row, &Problem, &[u8]) -> bool,
) -> Option<Vec<Part>> {
    let row = rows.get(fused)?;
    let ops = row_ops(row).ok()?;
    let problems = step_problems(row, problem, scalars).ok()?;
    let mut at = 0usize;
    let mut parts = Vec::with_capacity(ops.len());
    for ((step, op), problem) in row.steps.iter().zip(ops).zip(problems) {
        let end = at.checked_add(scalar_bytes(op))?;
        let own = scalars.get(at..end)?;
        at = end;
        // The weight of a step is the argument of it that has a format.
        let read = step.operands.iter().filter_map(|wire| row.args.get(wire.as_arg()? as usize));
        let read = read.into_iter().find(|spec| spec.format != FormatId::NONE);
        let as_read = |spec: &ArgSpec| (spec.format, spec.layout);
        let serves = |single: &Row| {
            let exact = |other: &Step| attr::admits(other.attrs, step.attrs & attr::EXACT);
            let same = is_alone(single, op) && single.steps.iter().all(exact) && single.regime == row.regime;
            let reads = read.is_none() || weight(single).map(as_read) == read.map(as_read);
            same && reads && admits(single, &problem, own)
        };
        let row = first(rows, &serves)?;
        parts.push(Part { row, problem, scalars: own.to_vec() });
    }
    Some(parts)
}

/// The key of a fusion's answer.
pub fn name(row: &Row, problem: &Problem, parts: &[Part], rows: &[Row]) -> String {
    let is_product = |part: &&Part| rows.get(part.row).is_some_and(|row| is_alone(row, Op::Matmul));
    let products: Vec<&Part> = parts.iter().filter(is_product).collect();
    let outputs = products.iter().map(|part| part.problem.n).fold(0u64, u64::saturating_add);
    let segment = match products.len() {
        2 => Some(Segment::GateUp),
        3 => Some(Segment::Qkv),
        _ => None,
    };
    match segment {
        Some(segment) => key::cols_segment(segment, outputs, problem.k, problem.m, &formats(row)),
        None => key::fused(row, problem),
    }
}

/// Formats of a row's weights in blocks, each once.
fn formats(row: &Row) -> Vec<FormatId> {
    let mut formats: Vec<FormatId> = Vec::new();
    for spec in weights(row).filter(|spec| spec.dtype == DtypeId::BYTES) {
        if !formats.contains(&spec.format) {
            formats.push(spec.format);
        }
    }
    formats
}

/// What the probe asks to be launched.
pub trait Arms {
    /// Hash of a row's code, if there is one.
    fn code(&self, row: usize) -> Option<[u8; 32]>;

    /// Times the fusion against its parts, in this order.
    ///
    /// # Errors
    /// Whatever keeps them from being timed.
    fn time(&mut self) -> Result<Timed, TuneError>;
}

/// Settles whether a fusion pays; the name of its family fixes the answer too. Nothing while timing is
/// held, or when it cannot be timed.
///
/// # Errors
/// When the device is lost.
pub fn settle(
    tuning: &Tuning,
    rows: &[Row],
    fused: usize,
    problem: &Problem,
    parts: &[Part],
    arms: &mut dyn Arms,
) -> Result<Option<Found>, TuneError> {
    let Some(row) = rows.get(fused) else { return Ok(None) };
    let (name, family) = (name(row, problem, parts, rows), key::family_label(row));
    let names = parts.iter().filter_map(|part| rows.get(part.row)).map(|row| row.name.as_str());
    let ids = vec![
        ArmId { name: row.name.to_string(), code: arms.code(fused) },
        ArmId {
            name: names.collect::<Vec<_>>().join("+"),
            code: Some(code_in_parts(rows, row, &|part| arms.code(part))),
        },
    ];
    let question = Question { name: name.clone(), scope: &family, arms: ids, keep: Keep::Stored };
    let settled = tuning.settle(&question, &mut || arms.time())?;
    let pays = settled.arm == 0;
    let known = settled.answered != Answered::Held;
    let found = Found { pays, answered: settled.answered, question: name.clone() };
    Record::from(Probe {
        probe: name,
        answer: if pays { FUSED } else { IN_PARTS }.to_owned(),
        answered: settled.answered,
        timings: settled.timings,
        launches: settled.launches,
        not_stored: settled.not_stored,
    })
    .emit();
    Ok(known.then_some(found))
}

/// The arms on a device: in the place a step has for them where there is a model, else over operands of
/// their own.
pub struct DeviceArms<'a> {
    device: &'a Device,
    probe: &'a mut RowProbe,
    forms: [Form; 2],
    placed: Option<([Segments; 2], u64)>,
}

impl<'a> DeviceArms<'a> {
    /// The arms of a fusion and its parts.
    pub fn new(device: &'a Device, probe: &'a mut RowProbe, fused: Part, parts: &[Part]) -> DeviceArms<'a> {
        let piece = |Part { row, problem, scalars }: Part| Piece { row, problem, scalars, times: 1 };
        let pieces = parts.iter().cloned().map(piece).collect();
        let forms = [
            Form { name: FUSED.to_owned(), pieces: vec![piece(fused)] },
            Form { name: IN_PARTS.to_owned(), pieces },
        ];
        DeviceArms { device, probe, forms, placed: None }
    }

    /// Times them in place: what a step launches fused and in parts, and how many bytes of weights it reads.
    pub fn set_in_place(&mut self, forms: [Segments; 2], step_bytes: u64) {
        self.placed = Some((forms, step_bytes));
    }
}

impl Arms for DeviceArms<'_> {
    fn code(&self, row: usize) -> Option<[u8; 32]> {
        self.device.code_hash(row)
    }

    fn time(&mut self) -> Result<Timed, TuneError> {
        match self.placed.take() {
            Some(([fused, parts], bytes)) => self.probe.segments(&[(FUSED, fused), (IN_PARTS, parts)], bytes),
            None => self.probe.forms(&self.forms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::choice_tests::{row, steps};
    use crate::tune::tuning::tests::{timed, tuning};
    use cajeta_abi::Regime;

    struct Fake([f64; 2], usize);

    impl Arms for Fake {
        fn code(&self, row: usize) -> Option<[u8; 32]> {
            Some([row as u8; 32])
        }

        fn time(&mut self) -> Result<Timed, TuneError> {
            self.1 += 1;
            Ok(timed(&self.0))
        }
    }

    fn registry() -> Vec<Row> {
        let cols = Regime::DECODE_COLS;
        vec![
            row("q4kCols", "", cols, 1),
            steps(row("gluSilu", "", cols, 1), &[Op::Glu]),
            steps(row("q4kColsGateUp", "", cols, 2), &[Op::Matmul, Op::Matmul, Op::Glu]),
        ]
    }

    #[test]
    fn a_segment_is_named_by_its_outputs_and_answered_once() {
        let rows = registry();
        let problem = Problem { m: 4, n: 14336, k: 4096, batch: 1, aux: 0 };
        let part = |row| Part { row, problem, scalars: Vec::new() };
        let parts = [part(0), part(0), part(1)];
        let folder = tempfile::tempdir().expect("a folder");
        let mut arms = Fake([3.0, 2.0], 0);
        for launches in [100, 0] {
            let tuning = tuning(Some(folder.path()), None);
            let pays = settle(&tuning, &rows, 2, &problem, &parts, &mut arms).expect("settled");
            let pays = pays.map(|found| (found.pays, found.question));
            let expected = Some((false, "colsSeg-gateup-28672x4096-b4.q4k".to_owned()));
            assert_eq!((pays, tuning.spent().stored), (expected, launches));
            let stored = tuning.store().recall("colsSeg-gateup-28672x4096-b4.q4k").expect("kept");
            assert_eq!(stored.value, "q4kCols+q4kCols+gluSilu");
        }
        assert_eq!(arms.1, 1);
    }

    #[test]
    fn the_code_of_all_that_may_serve_in_parts_is_in_the_build() {
        struct Codes(Option<usize>);
        impl Arms for Codes {
            fn code(&self, row: usize) -> Option<[u8; 32]> {
                Some([if self.0 == Some(row) { 0xFF } else { row as u8 }; 32])
            }

            fn time(&mut self) -> Result<Timed, TuneError> {
                Ok(timed(&[3.0, 2.0]))
            }
        }
        let cols = Regime::DECODE_COLS;
        let mut rows = registry();
        rows.push(steps(row("q4kColsPair", "", cols, 1), &[Op::Matmul, Op::Matmul]));
        rows.push(steps(row("packCols", "", cols, 1), &[Op::Pack]));
        rows.push(row("q4kMatVec", "", Regime::DECODE_ROW, 1));
        rows.push(steps(row("colsAdd", "", cols, 1), &[Op::Add]));
        let problem = Problem { m: 4, n: 14336, k: 4096, batch: 1, aux: 0 };
        let part = |row| Part { row, problem, scalars: Vec::new() };
        let parts = [part(0), part(0), part(1)];
        let folder = tempfile::tempdir().expect("a folder");
        let launches = |changed: Option<usize>| {
            let tuning = tuning(Some(folder.path()), None);
            settle(&tuning, &rows, 2, &problem, &parts, &mut Codes(changed)).expect("settled");
            tuning.spent().stored
        };
        assert_eq!((launches(None), launches(None)), (100, 0));
        for (row, timed) in [(2, 100), (0, 100), (3, 100), (4, 100), (5, 0), (6, 0)] {
            assert_eq!(launches(Some(row)), timed, "{}", rows[row].name);
        }
    }

    #[test]
    fn other_fusions_go_by_their_row() {
        let rows = registry();
        let problem = Problem { m: 512, n: 4096, k: 64, batch: 1, aux: 0 };
        let parts = [Part { row: 0, problem, scalars: Vec::new() }];
        assert_eq!(name(&rows[0], &problem, &parts, &rows), "fused.q4kCols.512x4096x64");
    }
}
