//! What measuring asks of rows as they are declared.

use cajeta_abi::{ArgSpec, Capability, FormatId, Row};
use cajeta_catalog::op::Op;

/// The arguments of a row that have a format: its weights.
pub(super) fn weights(row: &Row) -> impl Iterator<Item = &ArgSpec> {
    row.args.iter().filter(|spec| spec.format != FormatId::NONE)
}

/// The weight that a row reads first.
pub(super) fn weight(row: &Row) -> Option<&ArgSpec> {
    weights(row).next()
}

/// Whether a row computes one op and nothing else.
pub(super) fn is_alone(row: &Row, op: Op) -> bool {
    row.steps.len() == 1 && row.steps.iter().all(|step| step.op == op.id())
}

/// Whether a row runs on matrix cores.
pub(super) fn is_matrix(row: &Row) -> bool {
    let matrix = [Capability::MATRIX_F16, Capability::MATRIX_INT8];
    row.needs.iter().any(|need| matrix.contains(&need.capability))
}

/// The row that declared order puts first among those that serve: the highest priority, among equals the
/// first by name.
pub(super) fn first(rows: &[Row], serves: &dyn Fn(&Row) -> bool) -> Option<usize> {
    let found = rows.iter().enumerate().filter(|(_, row)| serves(row));
    let first = found.max_by(|(_, a), (_, b)| {
        a.priority.cmp(&b.priority).then_with(|| b.name.as_str().cmp(a.name.as_str()))
    });
    first.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::choice_tests::{needing, row};
    use cajeta_abi::Regime;

    #[test]
    fn priority_comes_first_and_then_the_name() {
        let batch = Regime::PREFILL_BATCH;
        let rows = [row("b", "", batch, 2), row("a", "", batch, 2), row("c", "", batch, 3)];
        assert_eq!(first(&rows, &|_| true), Some(2));
        assert_eq!(first(&rows, &|row| row.priority == 2), Some(1));
        assert_eq!(first(&rows, &|_| false), None);
    }

    #[test]
    fn a_row_is_known_by_what_it_reads_computes_and_needs() {
        let product = row("q4k", "", Regime::DECODE_ROW, 0);
        let read: Vec<FormatId> = weights(&product).map(|spec| spec.format).collect();
        // The fixture's output says f32, as a weight would.
        assert_eq!(read, [FormatId(12), FormatId(0)]);
        assert_eq!(weight(&product).map(|spec| spec.format), Some(FormatId(12)));
        assert!(is_alone(&product, Op::Matmul) && !is_alone(&product, Op::Add));
        assert!(!is_matrix(&product) && is_matrix(&needing(product, Capability::MATRIX_F16)));
    }
}
