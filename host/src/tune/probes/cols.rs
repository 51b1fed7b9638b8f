//! Whether one launch over several sequences beats as many launches of one row: `colsPays-q4k-b4`.
//!
//! The kernel is checked against the host's mat-vec first. One that is fast and wrong would look like a
//! win in every other instrument.

use cajeta_abi::{FormatId, Problem, Regime, Row};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_model_arch::quant::reference_matvec;
use cajeta_plugin_host::Device;

use crate::record::{Answered, Probe, Record};
use crate::tune::bench::{Form, Piece, RowBench, RowProbe, plain_scalars};
use crate::tune::tuning::{ArmId, Keep, Question, Timed, Tuning};
use crate::tune::{KernelSource, TuneError, key};

/// Error of an output, against the size of its terms, at which the kernel is wrong and not inexact: int8
/// activations stay far below it.
const WRONG: f64 = 0.02;
/// Most outputs of each column that are checked.
const CHECKED: u64 = 64;
/// The forms by name.
const ONE: &str = "one launch";
const EACH: &str = "a launch a sequence";

/// What is asked: a weight, and how many sequences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// The weight's format.
    pub format: FormatId,
    /// Sequences.
    pub columns: u64,
    /// Rows of the weight.
    pub n: u64,
    /// Columns of the weight.
    pub k: u64,
}

/// The rows compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The row over several sequences.
    pub cols: usize,
    /// The row over one.
    pub single: usize,
    /// What they multiply.
    pub asked: Asked,
}

impl Asked {
    fn problem(&self, m: u64) -> Problem {
        Problem { m, n: self.n, k: self.k, batch: 1, aux: 0 }
    }
}

/// The first rows of both kinds that `admits` lets through; nothing when one kind is missing.
pub fn pair(rows: &[Row], asked: &Asked, admits: &dyn Fn(&Row, &Problem) -> bool) -> Option<Pair> {
    let first = |regime: Regime, m: u64| {
        let serves = |row: &Row| {
            let alone = row.steps.len() == 1 && row.steps.iter().all(|step| step.op == Op::Matmul.id());
            let weight = row.args.iter().map(|spec| spec.format).find(|&format| format != FormatId::NONE);
            let asked_for = row.regime == regime && weight == Some(asked.format);
            alone && asked_for && admits(row, &asked.problem(m))
        };
        let found = (0..rows.len()).filter(|&row| serves(&rows[row]));
        found.max_by(|&a, &b| {
            let (a, b) = (&rows[a], &rows[b]);
            a.priority.cmp(&b.priority).then_with(|| b.name.as_str().cmp(a.name.as_str()))
        })
    };
    let (cols, single) = (first(Regime::DECODE_COLS, asked.columns)?, first(Regime::DECODE_ROW, 1)?);
    Some(Pair { cols, single, asked: *asked })
}

/// What the probe asks to be launched.
pub trait Arms {
    /// Name and code of a row.
    fn arm(&self, row: usize) -> ArmId;

    /// How the kernel over several sequences differs from the host's mat-vec; nothing when it does not.
    ///
    /// # Errors
    /// Whatever keeps it from being launched.
    fn differs(&mut self) -> Result<Option<String>, TuneError>;

    /// Times a launch a sequence against one launch over all of them, in this order.
    ///
    /// # Errors
    /// Whatever keeps them from being timed.
    fn time(&mut self) -> Result<Timed, TuneError>;
}

/// Settles a pair: whether the kernel over several sequences pays. Nothing while timing is held.
///
/// # Errors
/// When the device is lost.
pub fn settle(tuning: &Tuning, arms: &mut dyn Arms, pair: &Pair) -> Result<Option<bool>, TuneError> {
    let name = key::cols_pays(pair.asked.format, pair.asked.columns);
    // The one that is known to be right comes first: it serves where the other cannot be timed.
    let ids = vec![arms.arm(pair.single), arms.arm(pair.cols)];
    let question = Question { name: name.clone(), scope: &name, arms: ids, keep: Keep::Stored };
    let settled = tuning.settle(&question, &mut || match arms.differs()? {
        None => arms.time(),
        Some(difference) => Err(TuneError::Untimed {
            what: "the kernel over several sequences".to_owned(),
            why: format!("it differs from the host's mat-vec: {difference}"),
        }),
    })?;
    let pays = settled.arm == 1;
    let known = settled.answered != Answered::Held || settled.not_stored.is_some();
    Record::from(Probe {
        probe: name,
        answer: if pays { ONE } else { EACH }.to_owned(),
        answered: settled.answered,
        timings: settled.timings,
        launches: settled.launches,
        not_stored: settled.not_stored,
    })
    .emit();
    Ok(known.then_some(pays))
}

/// The arms on a device.
pub struct DeviceArms<'a> {
    device: &'a Device,
    probe: &'a mut RowProbe,
    pair: Pair,
}

impl<'a> DeviceArms<'a> {
    /// The arms of a pair.
    pub fn new(device: &'a Device, probe: &'a mut RowProbe, pair: Pair) -> DeviceArms<'a> {
        DeviceArms { device, probe, pair }
    }

    fn row(&self, row: usize) -> Result<&'static Row, TuneError> {
        let missing = || TuneError::Untimed { what: format!("row {row}"), why: "it does not exist".into() };
        self.device.backend().rows().get(row).ok_or_else(missing)
    }
}

impl Arms for DeviceArms<'_> {
    fn arm(&self, row: usize) -> ArmId {
        let name = self.row(row).map(|row| row.name.to_string()).unwrap_or_default();
        let manifest = self.device.manifest(row);
        let code = manifest.filter(|manifest| manifest.present & cajeta_abi::Manifest::CODE_HASH != 0);
        ArmId { name, code: code.map(|manifest| manifest.code_hash) }
    }

    fn differs(&mut self) -> Result<Option<String>, TuneError> {
        let Pair { cols, asked, .. } = self.pair;
        let row = self.row(cols)?;
        // A small part of the weight says as much about the kernel as all of it.
        let n = asked.n.min(CHECKED);
        let problem = Problem { n, ..asked.problem(asked.columns) };
        let scalars = plain_scalars(row)?;
        let Some(format) = Format::from_id(asked.format.0).filter(|format| format.is_decodable()) else {
            return Ok(Some("no host decodes its weights".to_owned()));
        };
        let in_file = row.args.iter().all(|spec| spec.layout.0 < cajeta_abi::LayoutId::OWN.0);
        if !in_file {
            return Ok(Some("its layout is the backend's own and cannot be checked".to_owned()));
        }
        let queue = self.probe.timer().queue().queue();
        let bench = RowBench::new(self.device, queue, cols, &problem, &scalars, &|_| None)?;
        let list = bench.list(queue, cols, 1)?;
        let ticket = queue.submit(&list)?;
        queue.wait(ticket)?;
        let wired = |operand: usize| {
            let wire = row.steps.first().and_then(|step| step.operands.get(operand))?;
            wire.as_arg().map(|arg| arg as usize)
        };
        let (Some(x), Some(weight), Some(out)) = (wired(0), wired(1), wired(3)) else {
            return Ok(Some("its operands are not arguments".to_owned()));
        };
        let x: Vec<f32> = floats(&bench.read(queue, x)?);
        let weight = bench.read(queue, weight)?;
        let out = floats(&bench.read(queue, out)?);
        Ok(difference(format, &weight, n as usize, asked.k as usize, &x, &out))
    }

    fn time(&mut self) -> Result<Timed, TuneError> {
        let Pair { cols, single, asked } = self.pair;
        let form = |name: &str, row: usize, m: u64, times: u32| -> Result<Form, TuneError> {
            let scalars = plain_scalars(self.row(row)?)?;
            let pieces = vec![Piece { row, problem: asked.problem(m), scalars, times }];
            Ok(Form { name: name.to_owned(), pieces })
        };
        let columns = u32::try_from(asked.columns).unwrap_or(u32::MAX);
        let forms = [form(EACH, single, 1, columns)?, form(ONE, cols, asked.columns, 1)?];
        self.probe.forms(&forms)
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

/// Where outputs differ from the reference by more than arithmetic explains.
fn difference(format: Format, weight: &[u8], n: usize, k: usize, x: &[f32], out: &[f32]) -> Option<String> {
    let mut expected = vec![0f64; n];
    for (column, (x, out)) in x.chunks(k.max(1)).zip(out.chunks(n.max(1))).enumerate() {
        if let Err(error) = reference_matvec(format, weight, n, k, x, &mut expected) {
            return Some(error.to_string());
        }
        let size = (expected.iter().map(|value| value * value).sum::<f64>() / n.max(1) as f64).sqrt();
        for (row, (&expected, &found)) in expected.iter().zip(out).enumerate() {
            let error = (f64::from(found) - expected).abs();
            if error.is_nan() || error > WRONG * size {
                return Some(format!("output {row} of column {column} is {found}, expected {expected:.4}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::tuning::tests::{timed, tuning};

    struct Fake {
        wrong: bool,
        medians: [f64; 2],
        timed: usize,
    }

    impl Arms for Fake {
        fn arm(&self, row: usize) -> ArmId {
            ArmId { name: format!("row{row}"), code: None }
        }

        fn differs(&mut self) -> Result<Option<String>, TuneError> {
            Ok(self.wrong.then(|| "output 3".to_owned()))
        }

        fn time(&mut self) -> Result<Timed, TuneError> {
            self.timed += 1;
            Ok(timed(&self.medians))
        }
    }

    const PAIR: Pair =
        Pair { cols: 1, single: 2, asked: Asked { format: FormatId(12), columns: 4, n: 64, k: 256 } };

    fn fake(wrong: bool, medians: [f64; 2]) -> Fake {
        Fake { wrong, medians, timed: 0 }
    }

    #[test]
    fn the_faster_form_pays_and_is_remembered() {
        let folder = tempfile::tempdir().expect("a folder");
        for (medians, pays) in [([3.0, 1.0], true), ([1.0, 3.0], false)] {
            let first = tuning(Some(folder.path()), None);
            first.store().remember("unrelated", "1");
            let mut arms = fake(false, medians);
            assert_eq!(settle(&first, &mut arms, &PAIR).expect("settled"), Some(pays));
            let again = tuning(Some(folder.path()), None);
            assert_eq!(settle(&again, &mut arms, &PAIR).expect("settled"), Some(pays));
            assert_eq!((arms.timed, again.spent().stored), (1, 0), "a second load runs nothing");
            assert!(again.store().recall("colsPays-q4k-b4").is_some());
            std::fs::remove_dir_all(first.store().folder().expect("kept")).expect("cleared");
        }
    }

    #[test]
    fn a_kernel_that_is_wrong_never_pays_and_is_not_timed() {
        let tuning = tuning(None, None);
        let mut arms = fake(true, [100.0, 1.0]);
        for _ in 0..2 {
            assert_eq!(settle(&tuning, &mut arms, &PAIR).expect("settled"), Some(false));
        }
        assert_eq!(arms.timed, 0);
    }

    #[test]
    fn nothing_is_said_while_timing_is_held() {
        let tuning = tuning(None, None);
        let _hold = tuning.hold();
        assert_eq!(settle(&tuning, &mut fake(false, [1.0, 2.0]), &PAIR).expect("held"), None);
    }

    #[test]
    fn a_wrong_output_is_found_and_a_rounded_one_is_not() {
        let weight: Vec<u8> = [1.0f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_le_bytes()).collect();
        let x = [1.0, 1.0, 2.0, 0.0];
        let right = [3.0, 7.0, 2.0, 6.0];
        assert_eq!(difference(Format::F32, &weight, 2, 2, &x, &right), None);
        let rounded = right.map(|value| value * 1.001);
        assert_eq!(difference(Format::F32, &weight, 2, 2, &x, &rounded), None);
        for (index, bad) in [(1, 8.0), (2, f32::NAN)] {
            let mut wrong = right;
            wrong[index] = bad;
            let said = difference(Format::F32, &weight, 2, 2, &x, &wrong).expect("found");
            assert!(said.contains(&format!("column {}", index / 2)), "{said}");
        }
    }
}
