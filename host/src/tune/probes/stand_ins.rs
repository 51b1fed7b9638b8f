//! The code that may run where a fusion does not: an answer about the two holds for all of it.

use cajeta_abi::{ArgSpec, OpId, Row};
use cajeta_catalog::op::Op;
use sha2::{Digest, Sha256};

use crate::tune::declared::{is_alone, weights};

/// The rows that may have a part in doing in parts what a fusion does: those of its regime that compute a
/// stretch of its ops over its formats, and packs. A smaller fusion may serve instead of the rows of single
/// steps, so what is compared depends on all of them.
fn stand_ins(rows: &[Row], fused: &Row) -> Vec<usize> {
    let ops: Vec<OpId> = fused.steps.iter().map(|step| step.op).collect();
    let is_part = |row: &Row| {
        let own: Vec<OpId> = row.steps.iter().map(|step| step.op).collect();
        let stretch = own.len() < ops.len() && ops.windows(own.len().max(1)).any(|some| some == own);
        let reads = |spec: &ArgSpec| weights(fused).any(|known| known.format == spec.format);
        let part = stretch && weights(row).all(reads);
        row.regime == fused.regime && (part || is_alone(row, Op::Pack))
    };
    (0..rows.len()).filter(|&row| is_part(&rows[row])).collect()
}

/// One hash of all code that may run in parts. Code without a hash goes by the version of the plugin, which
/// every answer holds for alone.
pub(super) fn code_in_parts(rows: &[Row], fused: &Row, code: &dyn Fn(usize) -> Option<[u8; 32]>) -> [u8; 32] {
    let mut digest = Sha256::new();
    let mut stand_ins: Vec<(&str, Option<[u8; 32]>)> = stand_ins(rows, fused)
        .into_iter()
        .filter_map(|row| Some((rows.get(row)?.name.as_str(), code(row))))
        .collect();
    stand_ins.sort_unstable();
    for (name, code) in stand_ins {
        // Lengths before texts, so that no two lists run into the same bytes.
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name.as_bytes());
        digest.update([u8::from(code.is_some())]);
        digest.update(code.unwrap_or_default());
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::choice_tests::{row, steps};
    use cajeta_abi::{FormatId, Regime};

    #[test]
    fn rows_stand_in_that_compute_a_stretch_of_the_ops_over_the_formats() {
        let cols = Regime::DECODE_COLS;
        let of = |name, ops: &[Op]| steps(row(name, "", cols, 1), ops);
        let mut other = row("q6kCols", "", cols, 1);
        let mut args = other.args.to_vec();
        args[1].format = FormatId(14);
        other.args = cajeta_abi::abi_stable::std_types::RSlice::from_slice(args.leak());
        let rows = [
            of("fused", &[Op::Matmul, Op::Matmul, Op::Glu]),
            of("one", &[Op::Matmul]),
            of("two", &[Op::Matmul, Op::Matmul]),
            of("tail", &[Op::Matmul, Op::Glu]),
            of("apart", &[Op::Glu, Op::Matmul]),
            of("pack", &[Op::Pack]),
            row("otherRegime", "", Regime::DECODE_ROW, 1),
            other,
        ];
        assert_eq!(stand_ins(&rows, &rows[0]), [1, 2, 3, 5]);
        let code =
            |changed: usize| move |row: usize| Some([if row == changed { 0xFF } else { row as u8 }; 32]);
        let known = code_in_parts(&rows, &rows[0], &code(4));
        assert_eq!(code_in_parts(&rows, &rows[0], &code(7)), known);
        assert_ne!(code_in_parts(&rows, &rows[0], &code(3)), known);
        assert_ne!(code_in_parts(&rows, &rows[0], &|_| None), known);
    }
}
