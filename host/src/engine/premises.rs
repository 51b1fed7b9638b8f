//! Asks what has to be known before weights are made resident: whether matrix cores pay, and for which of
//! a model's formats widened weights do.

use std::time::{Duration, Instant};

use cajeta_abi::{Capability, FormatId, Problem, Regime, Row};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_model_arch::plan::{Plan, PlanOp, PlanOperand};

use super::error::EngineError;
use super::registry::DeviceRegistry;
use crate::lower;
use crate::route::Registry;
use crate::tune::probes::once::Asks;
use crate::tune::{Answers, Premises, TuneError, Tuning};

/// Rows of a prefill that are asked about, where a chunk has as many.
const ROWS: u32 = 512;
/// Outputs and inputs of the product that matrix cores are asked about, of weights in Q4_K, whatever the
/// model has: the answer is about the device.
const SIDE: u64 = 4096;
/// Rows of a step of several sequences that they are asked about, where no prefill has rows of both kinds.
const COLUMNS: u64 = 16;

/// Products of a launch that is timed where the device works with the host: about a third of a millisecond.
const PRODUCTS_WITH_HOST: u64 = 1 << 23;
/// Inputs, and outputs, that stay when a launch there is cut to so many products: what decoding a weight
/// costs against multiplying it depends on the rows of activations alone, so those are cut last.
const INPUTS_WITH_HOST: u64 = 1024;
const OUTPUTS_WITH_HOST: u64 = 48;
/// Time of a bracket there. With two arms, warming and five rounds, a format takes about 15 ms.
const BRACKET_WITH_HOST: Duration = Duration::from_millis(1);
/// Time after which no other format is asked about there: a process pays less than 80 ms in all.
const BUDGET_WITH_HOST: Duration = Duration::from_millis(40);
/// Likewise where it works apart: the products are whole there.
const BUDGET_APART: Duration = Duration::from_millis(500);

/// Settles the premises of a model. `widens` is whether there is a budget for widened weights at all.
///
/// # Errors
/// When the device is lost.
pub fn ask(
    registry: &DeviceRegistry,
    tuning: &Tuning,
    plan: &Plan,
    chunk: u32,
    widens: bool,
) -> Result<Answers, EngineError> {
    let device = registry.device();
    let usable = |row: &Row| registry.can_run(row);
    let with_host = !registry.supports(Capability::ASYNC);
    let mut premises = Premises::new(tuning, device, &usable);
    if with_host {
        premises = premises.hurry(BRACKET_WITH_HOST);
    }
    let cut = |problem: Problem| if with_host { short(problem) } else { problem };
    let rows = u64::from(chunk.min(ROWS));

    let square = |m: u64| cut(Problem { m, n: SIDE, k: SIDE, ..Problem::default() });
    let places = [(Regime::PREFILL_BATCH, square(rows)), (Regime::DECODE_COLS, square(COLUMNS))];
    unless_lost(Asks::MatrixCores, premises.matrix_cores(FormatId(Format::Q4_K.id()), &places))?;

    let until = Instant::now().checked_add(if with_host { BUDGET_WITH_HOST } else { BUDGET_APART });
    let gate = gate_shape(plan).filter(|_| widens);
    for format in gate.iter().flat_map(|_| formats(plan)) {
        let Some((n, k)) = gate else { continue };
        let problem = cut(Problem { m: rows, n, k, ..Problem::default() });
        let widens = |layout| lower::widens(registry, layout, [format].into_iter());
        unless_lost(Asks::Tile(format), premises.tile_beats_deq(format, rows, &problem, &widens, until))?;
    }
    Ok(premises.finish())
}

/// What cannot be settled stays as declared, and is said; a lost device ends the load.
fn unless_lost(question: Asks, asked: Result<(), TuneError>) -> Result<(), TuneError> {
    TuneError::unless_lost(&format!("`{}`", question.name()), asked)
}

/// A problem cut to what a device that works with the host computes in a moment.
fn short(problem: Problem) -> Problem {
    let Problem { m, n, k, .. } = problem;
    let k = k.min(INPUTS_WITH_HOST);
    let n = n.min((PRODUCTS_WITH_HOST / m.saturating_mul(k).max(1)).max(OUTPUTS_WITH_HOST));
    let m = m.min((PRODUCTS_WITH_HOST / n.saturating_mul(k).max(1)).max(1));
    Problem { m, n, k, ..problem }
}

/// Outputs and inputs of the product that gates the feed-forward; of the largest product in the layers
/// where nothing is gated.
fn gate_shape(plan: &Plan) -> Option<(u64, u64)> {
    let glu = plan.ops.iter().find(|op| op.op == Op::Glu);
    let gate = glu.and_then(|op| op.operands.first());
    let products = || products(plan);
    let makes_it = |op: &&PlanOp| op.operands.last() == gate && gate.is_some();
    let product =
        products().find(makes_it).or_else(|| products().max_by_key(|op| op.n.saturating_mul(op.k)))?;
    Some((product.n, product.k))
}

/// The formats of the weights in the layers, those with most bytes first.
fn formats(plan: &Plan) -> Vec<FormatId> {
    let mut bytes: Vec<(FormatId, u64)> = Vec::new();
    let weights = products(plan).flat_map(|op| &op.operands).filter_map(|operand| match operand {
        PlanOperand::Tensor(id) => Some(plan.tensor(*id)),
        _ => None,
    });
    for tensor in weights {
        let format = FormatId(tensor.format.id());
        match bytes.iter_mut().find(|(known, _)| *known == format) {
            Some((_, sum)) => *sum = sum.saturating_add(tensor.bytes),
            None => bytes.push((format, tensor.bytes)),
        }
    }
    bytes.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    bytes.into_iter().map(|(format, _)| format).collect()
}

/// The products in the layers, whose input has every row of a chunk.
fn products(plan: &Plan) -> impl Iterator<Item = &PlanOp> {
    plan.ops.iter().take(plan.tail).filter(|op| op.op == Op::Matmul)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use cajeta_catalog::scalars::MatmulScalars;
    use cajeta_model_arch::plan::{PlanTensor, Rows, Scalars, TensorId, Value, ValueId};

    use super::*;

    #[test]
    fn a_launch_is_cut_in_inputs_then_outputs_then_rows() {
        let short = |m, n, k| {
            let Problem { m, n, k, .. } = short(Problem { m, n, k, ..Problem::default() });
            (m, n, k)
        };
        assert_eq!(short(512, 768, 256), (512, 64, 256));
        assert_eq!(short(512, 1536, 576), (303, 48, 576));
        assert_eq!(short(512, 14336, 4096), (170, 48, 1024));
        assert_eq!(short(16, 64, 256), (16, 64, 256));
    }

    /// Products of `sizes` outputs and inputs, each of a weight in its format with as many bytes as a file
    /// may claim.
    fn plan(sizes: &[(u64, u64, Format)]) -> Plan {
        let value = |name: &str| Value { name: name.into(), rows: Rows::Step, width: 256 };
        let tensor = |&(rows, width, format): &(u64, u64, Format)| PlanTensor {
            name: "w".into(),
            format,
            rows,
            width,
            offset: 0,
            bytes: u64::MAX / 2,
        };
        let op = |(at, &(n, k, _)): (usize, &(u64, u64, Format))| PlanOp {
            op: Op::Matmul,
            attrs: 0,
            layer: Some(0),
            rows: Rows::Step,
            per_row: 1,
            n,
            k,
            scalars: Scalars::Matmul(MatmulScalars { softcap: 0.0, reserved: 0 }),
            operands: vec![
                PlanOperand::Value(ValueId(0)),
                PlanOperand::Tensor(TensorId(at as u32)),
                PlanOperand::Absent,
                PlanOperand::Value(ValueId(1)),
            ],
        };
        Plan {
            values: vec![value("x"), value("y")],
            tensors: sizes.iter().map(tensor).collect(),
            ops: sizes.iter().enumerate().map(op).collect(),
            tail: sizes.len(),
            hidden: ValueId(1),
            logits: ValueId(1),
            kv: Vec::new(),
        }
    }

    #[test]
    fn sizes_of_a_file_that_do_not_fit_are_the_largest() {
        let small = (256, 256, Format::Q6_K);
        let huge = (1 << 40, 1 << 40, Format::Q4_K);
        let plan = plan(&[small, huge, huge, huge]);
        assert_eq!(gate_shape(&plan), Some((1 << 40, 1 << 40)));
        assert_eq!(formats(&plan), [Format::Q4_K, Format::Q6_K].map(|format| FormatId(format.id())));
    }

    #[test]
    fn what_stays_as_declared_is_named_with_its_format() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let writer = Said(said.clone());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(subscriber.finish(), || {
            let untimed = || TuneError::Untimed { what: "a row".to_owned(), why: "no room".to_owned() };
            unless_lost(Asks::MatrixCores, Err(untimed())).expect("not lost");
            unless_lost(Asks::Tile(FormatId(Format::Q6_K.id())), Err(untimed())).expect("not lost");
        });
        let said = String::from_utf8(said.lock().expect("whole").clone()).expect("text");
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].contains("`matrixCoresPay` stays as declared"), "{said}");
        assert!(lines[1].contains("`tileBeatsDeq-q6") && lines[1].contains("no room"), "{said}");
    }

    #[derive(Clone)]
    struct Said(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Said {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("whole").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
}
