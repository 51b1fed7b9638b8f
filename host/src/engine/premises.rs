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
    unless_lost(premises.matrix_cores(FormatId(Format::Q4_K.id()), &places))?;

    let until = Instant::now().checked_add(if with_host { BUDGET_WITH_HOST } else { BUDGET_APART });
    let gate = gate_shape(plan).filter(|_| widens);
    for format in gate.iter().flat_map(|_| formats(plan)) {
        let Some((n, k)) = gate else { continue };
        let problem = cut(Problem { m: rows, n, k, ..Problem::default() });
        let widens = |layout| lower::widens(registry, layout, [format].into_iter());
        unless_lost(premises.tile_beats_deq(format, rows, &problem, &widens, until))?;
    }
    Ok(premises.finish())
}

/// What cannot be settled stays as declared, and is said; a lost device ends the load.
fn unless_lost(asked: Result<(), TuneError>) -> Result<(), TuneError> {
    match asked {
        Err(error) if !error.is_lost() => {
            tracing::warn!(target: "cajeta::tune", "rows stay as declared: {error}");
            Ok(())
        }
        asked => asked,
    }
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
    let product = products().find(makes_it).or_else(|| products().max_by_key(|op| op.n * op.k))?;
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
            Some((_, sum)) => *sum += tensor.bytes,
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
}
