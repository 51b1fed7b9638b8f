//! What tells one question about a family from another, and which answer serves where none was asked.

use std::collections::BTreeMap;

use cajeta_abi::{OpId, Problem, Regime};
use cajeta_catalog::op::Op;

use crate::route::Route;
use crate::route::rows::{QueryOperand, QueryStep, RowRoute};
use crate::tune::key::Heads;

/// The farthest that steps of several sequences answer for each other, in thousandths of their ratio.
pub(super) const NEAR: u64 = 1500;
/// Likewise of chunks.
const NEAR_CHUNK: u64 = 4000;

/// The operand of a product that is its weight.
const WEIGHT: usize = 1;

/// A question about a family, or a row, but for its rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place {
    pub(super) regime: Regime,
    pub(super) format: u32,
    /// The first format of a further product's weight that differs: segments of one shape differ by it.
    pub(super) other: Option<u32>,
    pub(super) n: u64,
    pub(super) k: u64,
    pub(super) heads: Option<Heads>,
}

/// Where a row's question about a problem is answered.
pub(super) fn place(route: &RowRoute<'_>, problem: &Problem, heads: Option<Heads>) -> Place {
    let op = route.row().steps.get(route.row().problem_step as usize).map(|step| step.op);
    let (regime, format) = (route.regime(), route.format().0);
    let row = route.row();
    let products = row.steps.iter().filter(|step| step.op == Op::Matmul.id());
    let weights = products.filter_map(|step| step.operands.get(WEIGHT)?.as_arg());
    let formats = weights.filter_map(|arg| row.args.get(arg as usize)).map(|spec| spec.format.0);
    Place { regime, format, other: other(formats), n: problem.n, k: inputs(op, problem), heads }
}

/// The formats of products' weights, as ops that are asked about have them.
pub(super) fn other_of(steps: &[QueryStep]) -> Option<u32> {
    let products = steps.iter().filter(|step| step.op == Op::Matmul);
    other(products.filter_map(|step| match step.operands.get(WEIGHT) {
        Some(QueryOperand::Weight { format, .. }) => Some(format.0),
        _ => None,
    }))
}

fn other(mut formats: impl Iterator<Item = u32>) -> Option<u32> {
    let first = formats.next()?;
    formats.find(|&format| format != first)
}

/// The inputs of a problem that tell one question from another. How far attention looks back does not: it
/// is settled at one depth and serves at all.
pub(super) fn inputs(op: Option<OpId>, problem: &Problem) -> u64 {
    if op == Some(Op::Attention.id()) { 0 } else { problem.k }
}

/// The value of the nearest number, by ratio. A step of several sequences says nothing about one of twice as
/// many: how many are computed at once is what its kernels differ by. A short chunk says little about a
/// long one.
pub(super) fn nearest<T>(settled: &BTreeMap<u64, T>, m: u64, regime: Regime) -> Option<&T> {
    let (known, value) = settled.iter().min_by_key(|(known, _)| distance(**known, m))?;
    let near = match regime {
        Regime::DECODE_COLS => NEAR,
        Regime::PREFILL_BATCH => NEAR_CHUNK,
        _ => u64::MAX,
    };
    (distance(*known, m) <= near).then_some(value)
}

/// How far apart two numbers are, in thousandths of their ratio.
pub(super) fn distance(a: u64, b: u64) -> u64 {
    let (low, high) = (a.min(b).max(1), a.max(b).max(1));
    high.saturating_mul(1000) / low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_of_one_shape_differ_by_a_further_format() {
        assert_eq!(other([12, 12, 14].into_iter()), Some(14));
        assert_eq!(other([12, 12, 12].into_iter()), None);
        assert_eq!(other([].into_iter()), None);
    }

    #[test]
    fn the_nearest_settled_number_answers() {
        let settled = BTreeMap::from([(1, "one"), (64, "some"), (512, "many")]);
        for (m, expected) in
            [(1, Some(&"one")), (4, Some(&"one")), (100, Some(&"some")), (300, Some(&"many"))]
        {
            assert_eq!(nearest(&settled, m, Regime::PREFILL_BATCH), expected, "{m}");
        }
        assert_eq!(nearest(&settled, 4096, Regime::PREFILL_BATCH), None, "a chunk eight times as long");
        for (m, expected) in [(64, Some(&"some")), (96, Some(&"some")), (97, None), (350, Some(&"many"))] {
            assert_eq!(nearest(&settled, m, Regime::DECODE_COLS), expected, "{m}");
        }
        assert_eq!(nearest(&BTreeMap::<u64, ()>::new(), 1, Regime::PREFILL_BATCH), None);
    }
}
