//! Why nothing serves: built on the path that already refused.

use std::fmt;

use cajeta_abi::{FormatId, Regime};

use super::clause::Clause;

/// The row that got furthest, and what stopped it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RouteRefusal {
    /// The table.
    pub table: String,
    /// The question in words.
    pub asked: String,
    /// The regime asked for.
    pub regime: Regime,
    /// The format asked for.
    pub format: FormatId,
    /// The row; empty where the table is.
    pub row: String,
    /// The clause that refused it.
    pub clause: Clause,
    /// The row's own name for the constraint.
    pub gate: String,
    /// Index in the row's needs of the capability that is missing.
    pub need: Option<usize>,
}

impl fmt::Display for RouteRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RouteRefusal { table, asked, row, clause, gate, .. } = self;
        match clause {
            Clause::Empty => write!(f, "{table} has no row; asked for {asked}"),
            _ => {
                write!(f, "no row of {table} serves {asked}; furthest came {row}: {}: {gate}", clause.name())
            }
        }
    }
}

impl std::error::Error for RouteRefusal {}

/// What the gate of a row for another format, or regime, begins with.
pub(super) const SERVES: &str = "serves ";

/// No row serves an op: every row that computes it, with the gate that refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoRoute {
    /// The op asked for, with its place: `matmul blk.3.attn_q`.
    pub asked: String,
    /// Formats and regime asked for.
    pub detail: String,
    /// One a row, the one that got furthest first; those for other formats last.
    pub refusals: Vec<RouteRefusal>,
}

/// Rows of a refusal that are listed where none came further than others.
const LISTED: usize = 32;

impl NoRoute {
    /// The rows that came so far that their gates say what is missing: those of the format and regime, else
    /// those of the format, else those that lack nothing but an attribute or another weight's format.
    fn near(&self) -> &[RouteRefusal] {
        let until = |far: &dyn Fn(&RouteRefusal) -> bool| {
            self.refusals
                .get(..self.refusals.iter().take_while(|refusal| far(refusal)).count())
                .unwrap_or(&[])
        };
        let of_format = |refusal: &RouteRefusal| !refusal.is_other_format();
        let past = [
            until(&|refusal| refusal.clause > Clause::Regime),
            until(&|refusal| refusal.clause > Clause::Format),
            until(&of_format),
        ];
        let near = past.into_iter().find(|rows| !rows.is_empty()).unwrap_or(&[]);
        if near.iter().all(|refusal| refusal.clause > Clause::Regime) {
            return near;
        }
        near.get(..LISTED).unwrap_or(near)
    }

    /// The same with every row.
    pub fn in_full(&self) -> String {
        let mut text = format!("no kernel serves {} ({})", self.asked, self.detail);
        for RouteRefusal { row, clause, gate, .. } in &self.refusals {
            text.push_str(&format!("\n  {row}: {}: {gate}", clause.name()));
        }
        text
    }
}

impl RouteRefusal {
    /// Whether it is about a row for another format altogether.
    pub fn is_other_format(&self) -> bool {
        self.clause == Clause::Format && self.gate.starts_with(SERVES)
    }
}

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no kernel serves {} ({})", self.asked, self.detail)?;
        if self.refusals.is_empty() {
            return write!(f, ": the backend has no row for this op");
        }
        let near = self.near();
        for RouteRefusal { row, clause, gate, .. } in near {
            write!(f, "\n  {row}: {}: {gate}", clause.name())?;
        }
        match self.refusals.len().saturating_sub(near.len()) {
            0 => Ok(()),
            1 => write!(f, "\n  and one row for other formats or regimes; CAJETA_LOG=debug names it"),
            others => {
                write!(f, "\n  and {others} rows for other formats or regimes; CAJETA_LOG=debug lists all")
            }
        }
    }
}

impl std::error::Error for NoRoute {}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(rows: &[(Clause, &str, usize)]) -> NoRoute {
        let refusals = rows.iter().flat_map(|&(clause, gate, count)| {
            (0..count).map(move |index| RouteRefusal {
                table: "matmul".into(),
                asked: String::new(),
                regime: Regime::DECODE_ROW,
                format: FormatId(12),
                row: format!("row{index}"),
                clause,
                gate: gate.into(),
                need: None,
            })
        });
        NoRoute { asked: "matmul q".into(), detail: "w Q4_K".into(), refusals: refusals.collect() }
    }

    #[test]
    fn rows_that_came_far_are_listed_and_the_others_counted() {
        let others = [(Clause::Regime, "serves decode", 3), (Clause::Format, "serves Q8_0", 1200)];
        let far = [(Clause::Unsupported, "avx2", 1), (Clause::Shape, "K % 256", 1)];
        let refusal = refused(&[&far[..], &others].concat());
        assert_eq!(
            refusal.to_string(),
            "no kernel serves matmul q (w Q4_K)\n  row0: unsupported: avx2\n  row0: shape: K % 256\n  \
             and 1203 rows for other formats or regimes; CAJETA_LOG=debug lists all"
        );
        assert_eq!(refusal.in_full().lines().count(), 1 + 2 + 1203, "every row and its gate");
        let lines = |rows: &[_]| refused(rows).to_string().lines().map(str::to_owned).collect::<Vec<_>>();
        let of_the_format = lines(&others);
        assert_eq!(of_the_format.len(), 1 + 3 + 1);
        assert!(of_the_format[4].contains("and 1200 rows"), "{of_the_format:?}");
        let attributes = lines(&[(Clause::Format, "softcap", 40), (Clause::Format, "serves Q8_0", 1)]);
        assert_eq!(attributes.len(), 1 + LISTED + 1);
        assert!(attributes[1].ends_with("format: softcap") && attributes[33].contains("and 9 rows"));
        let nothing_near = lines(&[(Clause::Format, "serves Q8_0", 1)]);
        assert!(nothing_near[1].contains("one row for other formats"), "{nothing_near:?}");
    }
}
