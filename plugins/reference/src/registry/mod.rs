//! The rows: every op, decodable format and regime, then the rows with layouts
//! of their own and the fusions.
//!
//! Priorities are far below any real backend's. `CAJETA_REFERENCE_ROWS=all` puts
//! the latter rows before the plain ones.

mod draft;
mod plain;
mod own;

use std::sync::OnceLock;

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_plugin_api::abi::{Access, Manifest, Regime, Row};
use cajeta_plugin_api::{Answer, Fault};

use crate::facts;
use crate::settings::{Prefer, Settings};
use draft::Draft;

/// Priority of a plain row.
const PLAIN: i32 = -1000;

/// A regime of the forward pass, and the word its rows' names carry.
const REGIMES: [(Regime, &str); 3] =
    [(Regime::DECODE_ROW, "Row"), (Regime::PREFILL_BATCH, "Batch"), (Regime::DECODE_COLS, "Cols")];

/// All rows; the same on every call of a process.
pub fn rows() -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    ROWS.get_or_init(|| {
        // Rows cannot refuse; `probe` has said what is wrong with the settings.
        build(&Settings::read().unwrap_or_default())
    })
}

fn build(settings: &Settings) -> Vec<Row> {
    let own_priority = match settings.prefer {
        Prefer::Plain => PLAIN - 1000,
        Prefer::Own => PLAIN + 500,
    };
    let mut drafts = plain::drafts();
    drafts.extend(own::drafts(own_priority));
    drafts.into_iter().map(|draft: Draft| draft.row(settings.alignment)).collect()
}

/// The manifest of a row: the access of its buffers is all there is to know.
///
/// # Errors
/// No such row.
pub fn manifest(row: usize) -> Answer<Manifest> {
    static ACCESS: OnceLock<Vec<Vec<Access>>> = OnceLock::new();
    let all = ACCESS
        .get_or_init(|| rows().iter().map(|row| row.args.iter().map(|arg| arg.access).collect()).collect());
    let access = all.get(row).ok_or_else(|| Fault::invalid(format!("row {row} does not exist")))?;
    Ok(Manifest {
        target: RStr::from_str(facts::TARGET),
        access: RSlice::from_slice(access),
        ..Manifest::none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cajeta_plugin_api::catalog::op::Op;
    use cajeta_plugin_api::catalog::oracle::shapes::row_ops;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_every_op_is_served() {
        let rows = build(&Settings::default());
        let names: HashSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), rows.len());
        for op in Op::ALL {
            assert!(rows.iter().any(|row| row_ops(row) == Ok(vec![op])), "{}", op.name());
        }
    }

    #[test]
    fn the_preference_moves_own_rows_across_the_plain_ones() {
        let priority = |prefer| {
            let rows = build(&Settings { prefer, ..Settings::default() });
            rows.iter().find(|row| row.steps.len() > 1).map(|row| row.priority)
        };
        assert!(priority(Prefer::Plain) < Some(PLAIN));
        assert!(priority(Prefer::Own) > Some(PLAIN));
    }
}
