//! An audit in words: a table of the ops, and what is missing or turned away, a line each.

use std::collections::BTreeMap;

use cajeta::route::AuditedQuery;
use cajeta_catalog::op::Op;

use super::gated::Gated;
use super::{Audited, Missing, RefusedRowFacts, Report, TableFacts};
use crate::cli::table::Table;

/// Sizes of what a gate turns away that a line names.
const SIZES: usize = 3;

/// The report in words.
pub(super) fn describe(report: &Report) -> String {
    report.backends.iter().map(backend).collect::<Vec<_>>().concat()
}

fn backend(audited: &Audited) -> String {
    let Audited { backend, version, state, rows, missing, tables, .. } = audited;
    let mut out = format!("{backend} {version}: {rows} rows; {state}\n");
    if let Some(why) = &audited.unread {
        return format!("{out}  its rows were not read: {why}\n\n");
    }
    out.push_str(&table(tables).to_string());
    for RefusedRowFacts { row, reason } in &audited.refused_rows {
        out.push_str(&format!("  refused: {row}: {reason}\n"));
    }
    for (what, formats) in by_format(missing) {
        out.push_str(&format!("  no row: {what}: {}\n", formats.join(", ")));
    }
    audited.gated.iter().for_each(|gated| out.push_str(&turned_away(gated)));
    let mut list = |word: &str, op: &str, rows: &[String]| {
        if !rows.is_empty() {
            out.push_str(&format!("  {word}: {op}: {}\n", rows.join(", ")));
        }
    };
    tables.iter().for_each(|facts| list("never", facts.op, &facts.never));
    tables.iter().for_each(|facts| list("always", facts.op, &facts.always));
    out.push('\n');
    out
}

fn table(tables: &[TableFacts]) -> Table {
    let mut table = Table::new(&["  op", "rows", "questions", "served", "shadowed", "never", "always"]);
    for facts in tables {
        let count = |wanted: &dyn Fn(&AuditedQuery) -> bool| {
            facts.queries.iter().filter(|query| wanted(&query.query)).count().to_string()
        };
        table.row([
            format!("  {}", facts.op),
            facts.rows.len().to_string(),
            facts.queries.len().to_string(),
            count(&|query| query.serves > 0),
            count(&|query| query.shadowed),
            facts.never.len().to_string(),
            facts.always.len().to_string(),
        ]);
    }
    table
}

/// `  gate: matmul K % 256: Q4_K, Q6_K at N 7 K 7, N 1000 K 192; 12 questions in decode-row`.
fn turned_away(gated: &Gated) -> String {
    let Gated { op, gate, questions, regimes, formats, sizes } = gated;
    let named = sizes.iter().take(SIZES).map(|[n, k]| format!("N {n} K {k}"));
    let mut named = named.collect::<Vec<_>>().join(", ");
    if sizes.len() > SIZES {
        named.push_str(&format!(" and {} others", sizes.len() - SIZES));
    }
    let formats = if formats.is_empty() { String::new() } else { format!("{} ", formats.join(", ")) };
    let plural = if *questions == 1 { "" } else { "s" };
    format!(
        "  gate: {op} {gate}: {formats}at {named}; {questions} question{plural} in {}\n",
        regimes.join(", ")
    )
}

/// What is missing, with the formats on one line.
fn by_format(missing: &[Missing]) -> Vec<(String, Vec<String>)> {
    let mut lines: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
    for Missing { op, attributes, format, regime } in missing {
        let with = if attributes.is_empty() { String::new() } else { format!("+{attributes}") };
        let order = Op::ALL.iter().position(|known| known.name() == *op).unwrap_or(usize::MAX);
        let format = format.clone().unwrap_or_else(|| "at all".into());
        lines.entry((order, format!("{op}{with} {regime}"))).or_default().push(format);
    }
    lines.into_iter().map(|((_, what), formats)| (what, formats)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_one_hole_share_a_line() {
        let missing = |format: Option<&str>, regime: &str| Missing {
            op: "matmul",
            attributes: "bias".into(),
            format: format.map(str::to_owned),
            regime: regime.into(),
        };
        let lines = by_format(&[
            missing(Some("Q2_K"), "decode-row"),
            missing(Some("Q3_K"), "decode-row"),
            missing(None, "bind"),
        ]);
        let lines: Vec<String> =
            lines.into_iter().map(|(what, formats)| format!("{what}: {}", formats.join(", "))).collect();
        assert_eq!(lines, ["matmul+bias bind: at all", "matmul+bias decode-row: Q2_K, Q3_K"]);
    }

    #[test]
    fn what_a_gate_turns_away_is_one_line() {
        let gated = |sizes: Vec<[u64; 2]>, questions| Gated {
            op: "matmul",
            gate: "K % 256".into(),
            questions,
            regimes: vec!["decode-row".into(), "prefill-batch".into()],
            formats: vec!["Q4_K".into(), "Q6_K".into()],
            sizes,
        };
        assert_eq!(
            turned_away(&gated(vec![[7, 7]], 1)),
            "  gate: matmul K % 256: Q4_K, Q6_K at N 7 K 7; 1 question in decode-row, prefill-batch\n"
        );
        let many = turned_away(&gated(vec![[1, 1], [2, 2], [3, 3], [4, 4], [5, 5]], 9));
        assert!(many.contains("N 1 K 1, N 2 K 2, N 3 K 3 and 2 others; 9 questions"), "{many}");
        let plain = turned_away(&Gated { formats: Vec::new(), ..gated(vec![[7, 7]], 1) });
        assert!(plain.starts_with("  gate: matmul K % 256: at N 7 K 7; "), "{plain}");
    }
}
