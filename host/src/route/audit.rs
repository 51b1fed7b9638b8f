//! The audit: every row held against every question by declared facts alone.
//!
//! No device is asked, not even for the capabilities rows need: on a machine without the hardware, which
//! is where a format is most likely being added, such an audit would call a whole table unserved. A row
//! whose capability is missing here still serves its format; what it needs is reported.

use serde::Serialize;

use super::clause::{Ask, Clause, Stop, clause_of};
use super::query::RouteQuery;
use super::table::RouteTable;
use super::variant::{QueryOf, Route};

/// What an audit of one table found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// The table.
    pub table: String,
    /// One a question, in the order asked.
    pub queries: Vec<AuditedQuery>,
    /// One a row, in the order the table tries them.
    pub rows: Vec<AuditedRow>,
    /// By question, then row.
    clauses: Vec<Option<Clause>>,
}

/// One question.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AuditedQuery {
    /// In words.
    pub query: String,
    /// How many rows serve it.
    pub serves: usize,
    /// The row that comes first, if one does.
    pub first: Option<String>,
    /// Whether others stand behind it.
    pub shadowed: bool,
    /// The row that got furthest and what stopped it, where none serves.
    pub stopped: Option<Stopped>,
}

/// What kept a row from serving.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Stopped {
    /// The row.
    pub row: String,
    /// The clause.
    pub clause: &'static str,
    /// The row's own name for the constraint.
    pub gate: String,
}

/// One row.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct AuditedRow {
    /// Its name.
    pub row: String,
    /// How many questions it serves.
    pub fires: usize,
    /// Of how many.
    pub asked: usize,
    /// What it declares it needs.
    pub needs: Vec<String>,
}

impl AuditedRow {
    /// Whether it serves nothing that was asked: a gate that admits nothing.
    pub fn never(&self) -> bool {
        self.fires == 0
    }

    /// Whether it serves everything that was asked: a gate that tells nothing apart.
    pub fn always(&self) -> bool {
        self.asked > 0 && self.fires == self.asked
    }
}

impl Audit {
    /// The clause that stopped a row at a question; nothing where it serves.
    pub fn clause(&self, query: usize, row: &str) -> Option<Clause> {
        let index = self.rows.iter().position(|known| known.row == row)?;
        self.clauses.get(query.checked_mul(self.rows.len())?.checked_add(index)?).copied().flatten()
    }

    /// The clauses of a question, one a row.
    pub fn clauses(&self, query: usize) -> &[Option<Clause>] {
        let rows = self.rows.len().max(1);
        self.clauses.chunks(rows).nth(query).unwrap_or(&[])
    }
}

impl<R: Route> RouteTable<R> {
    /// Holds every row against every question by format, regime and shape.
    pub fn audit(&self, queries: &[QueryOf<R>]) -> Audit {
        let mut audit = Audit {
            table: self.name().to_owned(),
            queries: Vec::with_capacity(queries.len()),
            rows: self.routes().iter().map(|route| audited(route, queries.len())).collect(),
            clauses: Vec::with_capacity(queries.len().saturating_mul(self.routes().len())),
        };
        for query in queries {
            let ask = Ask::Declared(query);
            let (mut serves, mut first) = (0, None);
            let mut furthest: Option<(&R, Stop<'_>)> = None;
            for (route, row) in self.routes().iter().zip(&mut audit.rows) {
                let stop = clause_of(route, &ask);
                audit.clauses.push(stop.map(|stop| stop.clause));
                let Some(stop) = stop else {
                    row.fires += 1;
                    serves += 1;
                    first.get_or_insert_with(|| route.name().to_owned());
                    continue;
                };
                if furthest.is_none_or(|(_, best)| stop.reach() > best.reach()) {
                    furthest = Some((route, stop));
                }
            }
            let stopped = furthest.filter(|_| serves == 0).map(|(route, stop)| Stopped {
                row: route.name().to_owned(),
                clause: stop.clause.name(),
                gate: stop.gate.to_owned(),
            });
            let (query, shadowed) = (query.describe(), serves > 1);
            audit.queries.push(AuditedQuery { query, serves, first, shadowed, stopped });
        }
        audit
    }

    /// Holds one row against questions: hand it its own format at shapes that should take it and at
    /// shapes that should not.
    pub fn audit_row(&self, route: &R, queries: &[QueryOf<R>]) -> AuditedRow {
        let mut row = audited(route, queries.len());
        let serves = |query: &&QueryOf<R>| clause_of(route, &Ask::Declared(*query)).is_none();
        row.fires = queries.iter().filter(serves).count();
        row
    }
}

fn audited<R: Route>(route: &R, asked: usize) -> AuditedRow {
    let needs = route.needs().iter().map(|need| need.name.to_string()).collect();
    AuditedRow { row: route.name().to_owned(), fires: 0, asked, needs }
}
