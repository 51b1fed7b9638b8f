//! Holds a product of several rows against the host's mat-vec, over a weight made for it. A kernel that is
//! fast and wrong would look like a win in every other instrument.
//!
//! What the kernel reads in layouts of the backend's own is made from known values by the backend's own
//! rows: a relayout for the weight, a pack for the input. So these are checked with it.

use cajeta_abi::{FormatId, MemoryKind, Problem, Row, Shape};
use cajeta_catalog::quant::Format;
use cajeta_model_arch::quant::reference_matvec;
use cajeta_plugin_host::{BufferSpan, Device, LaunchSpec, Queue};

use super::product_args::{Admits, ProductArgs, ends};
use crate::tune::TuneError;
use crate::tune::bench::{Random, plain_scalars, rows_named};

/// Error of an output, against the size of its column, at which a kernel is wrong and not inexact: int8
/// activations stay far below it.
const WRONG: f64 = 0.02;
/// Outputs of each column that are checked, where the kernel computes so few.
const CHECKED: u64 = 64;

/// A check of one row of one product.
pub(crate) struct HostCheck<'a> {
    device: &'a Device,
    row: usize,
    format: Format,
    problem: Problem,
    arguments: ProductArgs,
}

/// An operand in the layout that a row reads it in.
#[derive(Clone, Copy)]
struct Operand {
    /// The argument that reads it.
    arg: usize,
    /// The row that makes it, and its problem.
    made_by: Option<usize>,
    problem: Problem,
    /// What it is made from.
    shape: Shape,
}

impl<'a> HostCheck<'a> {
    /// The check of a row that computes a product alone.
    ///
    /// # Errors
    /// In words, why nobody can tell whether the row is right.
    pub(crate) fn new(
        device: &'a Device,
        row: usize,
        problem: &Problem,
        admits: &Admits<'_>,
    ) -> Result<HostCheck<'a>, String> {
        let rows = device.backend().rows();
        let spec = rows.get(row).ok_or("there is no such row")?;
        let scalars = plain_scalars(spec).map_err(|error| error.to_string())?;
        // A small part of the weight says as much about the kernel as all of it.
        let part = Problem { n: problem.n.min(CHECKED), ..*problem };
        let problem = if admits(spec, &part, &scalars) { part } else { *problem };
        let (format, arguments) = ProductArgs::of(rows, spec, &problem, admits)?;
        Ok(HostCheck { device, row, format, problem, arguments })
    }

    /// How the row differs from the host's mat-vec; nothing when it does not.
    ///
    /// # Errors
    /// Whatever the device answers.
    pub(crate) fn differs(&self, queue: &mut Queue) -> Result<Option<String>, TuneError> {
        let HostCheck { device, format, problem, .. } = *self;
        let ProductArgs { x, weight, out, relayout, pack } = self.arguments;
        let spec = row_of(device, self.row)?;
        let Problem { m, n, k, .. } = problem;
        let mut random = Random::new(m);
        let row_bytes = format.row_bytes(k).and_then(|bytes| bytes.checked_mul(n));
        let blocks = bytes_of(row_bytes)?;
        let blocks = if format == Format::F32 { random.floats(blocks) } else { random.blocks(blocks) };
        let inputs = random.floats(bytes_of(m.checked_mul(k).and_then(|values| values.checked_mul(4)))?);

        let blocks_there = self.there(queue, &blocks, padding(spec, weight))?;
        let shape = Shape { format: FormatId(format.id()), rows: n, width: k };
        let problem_of = Problem { n, k, ..Problem::default() };
        let relaid = Operand { arg: weight, made_by: relayout, problem: problem_of, shape };
        let blocks_there = self.relaid(queue, spec, relaid, blocks_there)?;
        let inputs_there = self.there(queue, &inputs, padding(spec, x))?;
        let shape = Shape { format: FormatId::NONE, rows: m, width: k };
        let problem_of = Problem { m, k, ..Problem::default() };
        let packed = Operand { arg: x, made_by: pack, problem: problem_of, shape };
        let inputs_there = self.relaid(queue, spec, packed, inputs_there)?;

        let out_bytes = bytes_of(m.checked_mul(n).and_then(|values| values.checked_mul(4)))?;
        let out_there = self.there(queue, &vec![0xFF; out_bytes], padding(spec, out))?;
        let mut args = vec![None; spec.args.len()];
        for (arg, span) in [(x, inputs_there), (weight, blocks_there), (out, out_there.clone())] {
            if let Some(slot) = args.get_mut(arg) {
                *slot = Some(span);
            }
        }
        self.launch(queue, self.row, &problem, plain_scalars(spec)?, args)?;
        let mut found = vec![0; out_bytes];
        queue.download(&out_there, &mut found)?;
        let (inputs, found) = (floats(&inputs), floats(&found));
        Ok(difference(format, &blocks, n as usize, k as usize, &inputs, &found))
    }

    /// Bytes on the device.
    fn there(&self, queue: &mut Queue, bytes: &[u8], padding: u64) -> Result<BufferSpan, TuneError> {
        let len = bytes.len() as u64;
        let buffer = self.device.alloc(len.saturating_add(padding), MemoryKind::DEVICE, false)?;
        let span = buffer.span(0, len)?;
        queue.upload(&span, bytes)?;
        Ok(span)
    }

    /// An operand as `reader` has it; as it is where no row makes it.
    fn relaid(
        &self,
        queue: &mut Queue,
        reader: &Row,
        operand: Operand,
        from: BufferSpan,
    ) -> Result<BufferSpan, TuneError> {
        let Operand { arg, made_by, problem, shape } = operand;
        let (Some(by), Some(spec)) = (made_by, reader.args.get(arg)) else { return Ok(from) };
        let bytes = self.device.backend().layout_bytes(spec.layout, &[shape])?;
        let with_padding = bytes.saturating_add(u64::from(spec.padding));
        let to = self.device.alloc(with_padding, MemoryKind::DEVICE, false)?.span(0, bytes)?;
        let made = row_of(self.device, by)?;
        let ends = ends(made).ok_or_else(|| untimed(made, "it is not wired as a change of layout"))?;
        let mut args = vec![None; made.args.len()];
        for (arg, span) in [(ends.0, from), (ends.1, to.clone())] {
            if let Some(slot) = args.get_mut(arg) {
                *slot = Some(span);
            }
        }
        self.launch(queue, by, &problem, Vec::new(), args)?;
        Ok(to)
    }

    fn launch(
        &self,
        queue: &mut Queue,
        row: usize,
        problem: &Problem,
        scalars: Vec<u8>,
        args: Vec<Option<BufferSpan>>,
    ) -> Result<(), TuneError> {
        let device = self.device;
        let geometry = device.backend().geometry(row, device.facts(), problem, &scalars)?;
        let mut side = |bytes: u64| -> Result<Option<BufferSpan>, TuneError> {
            let zeroed = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
            if bytes == 0 { Ok(None) } else { self.there(queue, &zeroed, 0).map(Some) }
        };
        let (scratch, semaphores) = (side(geometry.scratch_bytes)?, side(geometry.semaphore_bytes)?);
        let split = geometry.split_min.max(1);
        let list = device.list(&[LaunchSpec {
            row,
            split,
            problem: *problem,
            args,
            scalars,
            scratch,
            semaphores,
        }])?;
        let launched = queue.submit(&list).and_then(|ticket| queue.wait(ticket));
        let rows = device.backend().rows();
        launched.map_err(|error| TuneError::timing(&|| rows_named(rows, vec![(row, *problem)]), error))
    }
}

fn row_of(device: &Device, row: usize) -> Result<&Row, TuneError> {
    let missing = || TuneError::Untimed { what: format!("row {row}"), why: "it does not exist".into() };
    device.backend().rows().get(row).ok_or_else(missing)
}

fn untimed(row: &Row, why: &str) -> TuneError {
    TuneError::Untimed { what: format!("row `{}`", row.name), why: why.to_owned() }
}

fn padding(row: &Row, arg: usize) -> u64 {
    row.args.get(arg).map_or(0, |spec| u64::from(spec.padding))
}

/// A size as the host counts.
fn bytes_of(bytes: Option<u64>) -> Result<usize, TuneError> {
    let too_large = || TuneError::Untimed { what: "a product".into(), why: "its size overflows".into() };
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(too_large)
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
