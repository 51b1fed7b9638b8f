//! `cajeta audit`: every installed plugin's rows against every op and format, or against a model's ops.
//!
//! Rows are data, so a plugin is audited on a machine without its hardware; what its rows need of a
//! device is reported and not asked.

mod gated;
mod text;

use std::path::PathBuf;

use cajeta::engine::{DEFAULT_CHUNK, Model};
use cajeta::lower::{self, Sizes};
use cajeta::route::rows::{RouteTables, RowRoute, format_name, regime_name};
use cajeta::route::survey::{self, Question};
use cajeta::route::usable::select_options;
use cajeta::route::{AuditedQuery, AuditedRow, Clause, Route, RouteQuery, RouteTable, attribute_names};
use cajeta_abi::FormatId;
use cajeta_catalog::kv::BLOCK_POSITIONS;
use cajeta_catalog::op::Op;
use cajeta_catalog::state::StepLayout;
use cajeta_plugin_host::select::BACKEND_VARIABLE;
use cajeta_plugin_host::{Backend, Installed, RefusedRow, SelectOptions, printable, registries};
use clap::Args;
use serde::Serialize;

use super::failure::{Failure, Outcome};
use super::lowering::usual_context;
use super::output;
use gated::Gated;

/// Characters of a name in a sentence.
const NAME_MAX: usize = 64;

const EXAMPLES: &str = "\
Examples:
  cajeta audit                           every op in every format: which rows serve it, which is missing
  cajeta audit model.gguf                the same for the ops of a model
  cajeta audit --backend NAME --json     one plugin, with the clause of every row at every question
Works without the plugin's hardware. `no row` is served at no shape; `gate` is served, but not at these
sizes; rows fire for none (`never`) or for all (`always`) of what was asked. In JSON the `clauses` of a question are one letter a row of the
table, in its order: `.` serves, `f` format, `r` regime, `s` shape. A plugin whose rows cannot be read is a failure.";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// A GGUF file whose ops are asked; its weights are not loaded
    model: Option<PathBuf>,
    /// Audit this plugin and no other; wins over CAJETA_XPU_BACKEND
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Prints what the audit found.
pub(crate) fn run(flags: Flags) -> Outcome {
    let mut select = select_options()?;
    select.force = flags.backend.clone();
    let model = flags.model.as_deref().map(Model::open).transpose()?;
    let installed = registries(&select)?;
    if installed.is_empty() {
        return Err(Failure::work(format!(
            "{}; `cajeta backends --explain` says where plugins are looked for",
            none_of(&select)
        )));
    }
    let report = Report {
        model: flags.model.map(|path| path.display().to_string()),
        backends: installed.iter().map(|plugin| Audited::of(plugin, model.as_ref())).collect(),
    };
    if flags.json {
        output::json(&report)?
    } else {
        output::text(&text::describe(&report))?
    }
    match unread(&report.backends) {
        None => Ok(()),
        Some(sentence) => Err(Failure::work(sentence)),
    }
}

/// What was looked for and is not there.
fn none_of(select: &SelectOptions) -> String {
    let variable = select.variable.as_deref().map(|value| value.to_string_lossy());
    match (&select.force, variable.as_deref().map(str::trim).filter(|value| !value.is_empty())) {
        (Some(name), _) => format!("no plugin `{}` is installed", printable::line(name, NAME_MAX)),
        (None, Some(names)) => {
            format!("no plugin of {BACKEND_VARIABLE}={} is installed", printable::line(names, NAME_MAX))
        }
        (None, None) => "no plugin is installed".to_owned(),
    }
}

/// The plugins about which nothing is known, as a failure says it.
fn unread(backends: &[Audited]) -> Option<String> {
    let unread: Vec<&str> = backends
        .iter()
        .filter(|audited| audited.unread.is_some())
        .map(|audited| audited.backend.as_str())
        .collect();
    (!unread.is_empty()).then(|| format!("not audited, as the rows were not read: {}", unread.join(", ")))
}

#[derive(Serialize)]
struct Report {
    model: Option<String>,
    backends: Vec<Audited>,
}

/// One plugin.
#[derive(Serialize)]
struct Audited {
    backend: String,
    version: String,
    library: Option<PathBuf>,
    /// What a probe made of it: it need not be usable.
    state: String,
    /// Why its rows could not be read.
    unread: Option<String>,
    rows: usize,
    /// Rows that are not used, each with its reason.
    refused_rows: Vec<RefusedRowFacts>,
    /// Ops in a format and a regime that no row serves.
    missing: Vec<Missing>,
    /// Questions that gates alone turn away, by op and gate.
    gated: Vec<Gated>,
    tables: Vec<TableFacts>,
}

#[derive(Serialize)]
struct RefusedRowFacts {
    row: String,
    reason: String,
}

#[derive(Serialize, PartialEq, Clone)]
struct Missing {
    op: &'static str,
    attributes: String,
    format: Option<String>,
    regime: String,
}

/// The table of one op.
#[derive(Serialize)]
struct TableFacts {
    op: &'static str,
    queries: Vec<QueryFacts>,
    rows: Vec<RowFacts>,
    /// Rows that serve nothing of what was asked.
    never: Vec<String>,
    /// Rows that serve all that was asked in their own format and regime.
    always: Vec<String>,
}

#[derive(Serialize)]
struct QueryFacts {
    #[serde(flatten)]
    query: AuditedQuery,
    clauses: String,
}

#[derive(Serialize)]
struct RowFacts {
    #[serde(flatten)]
    row: AuditedRow,
    /// The same counts over questions in the row's own format and regime alone.
    own_fires: usize,
    own_asked: usize,
}

impl Audited {
    fn of(plugin: &Installed, model: Option<&Model>) -> Audited {
        let candidate = &plugin.candidate;
        let mut audited = Audited {
            backend: candidate.id.clone(),
            version: candidate.version.clone(),
            library: candidate.library.clone(),
            state: candidate.state(),
            unread: None,
            rows: 0,
            refused_rows: Vec::new(),
            missing: Vec::new(),
            gated: Vec::new(),
            tables: Vec::new(),
        };
        match &plugin.backend {
            Ok(backend) => audited.read(backend, model),
            Err(refusal) => audited.unread = Some(refusal.to_string()),
        }
        audited
    }

    fn read(&mut self, backend: &Backend, model: Option<&Model>) {
        let (rows, layouts) = (backend.rows(), backend.layouts());
        self.rows = rows.len();
        let refused = backend.refused_rows().iter();
        let facts = |row: &RefusedRow| RefusedRowFacts { row: row.name.clone(), reason: row.reason.clone() };
        self.refused_rows = refused.map(facts).collect();
        let questions = match model {
            Some(model) => lower::questions(&model.plan, &sizes(model), rows, layouts),
            None => survey::questions(rows, layouts),
        };
        let tables = RouteTables::new(rows, layouts);
        for op in Op::ALL {
            let asked: Vec<&Question> =
                questions.iter().filter(|question| question.op() == Some(op)).collect();
            if !asked.is_empty() {
                let (table, missing) = audit(op, tables.table(op), &asked);
                let audited = asked.iter().zip(&table.queries);
                self.gated.extend(gated::of(audited.map(|(question, facts)| (*question, &facts.query))));
                self.missing.extend(missing);
                self.tables.push(table);
            }
        }
    }
}

/// A prefill chunk of the model.
fn sizes(model: &Model) -> Sizes {
    let context = usual_context(model.config.n_ctx_train);
    let rows = DEFAULT_CHUNK.min(context);
    let state = StepLayout { max_rows: rows, max_seqs: 4, max_blocks: context.div_ceil(BLOCK_POSITIONS) };
    Sizes { rows, out_rows: 1, seqs: 1, context, state }
}

fn audit<'q>(op: Op, table: &RouteTable<RowRoute<'q>>, asked: &[&'q Question]) -> (TableFacts, Vec<Missing>) {
    let queries: Vec<_> = asked.iter().map(|question| question.query()).collect();
    let audit = table.audit(&queries);
    let rows = table.routes().iter().zip(&audit.rows).map(|(route, row)| {
        let own = queries.iter().filter(|query| {
            query.format() == route.format() && query.regime_of(route.covers()) == route.regime()
        });
        let own = table.audit_row(route, &own.copied().collect::<Vec<_>>());
        RowFacts { row: row.clone(), own_fires: own.fires, own_asked: own.asked }
    });
    let rows: Vec<RowFacts> = rows.collect();
    let names = |wanted: &dyn Fn(&RowFacts) -> bool| {
        rows.iter().filter(|row| wanted(row)).map(|row| row.row.row.clone()).collect::<Vec<_>>()
    };
    let never = names(&|row| row.row.never());
    let always = names(&|row| row.own_asked > 0 && row.own_fires == row.own_asked);
    let mut missing = missing(asked, &audit.queries);
    missing.dedup();
    let letters = |query: usize| audit.clauses(query).iter().map(|clause| letter(*clause)).collect();
    let queries = audit.queries.iter().enumerate().map(|(index, query)| {
        let clauses: String = letters(index);
        QueryFacts { query: query.clone(), clauses }
    });
    (TableFacts { op: op.name(), queries: queries.collect(), rows, never, always }, missing)
}

/// What nothing serves at any shape.
fn missing(asked: &[&Question], audited: &[AuditedQuery]) -> Vec<Missing> {
    let mut served: Vec<(Missing, bool)> = Vec::new();
    for (question, audited) in asked.iter().zip(audited) {
        let query = question.query();
        let Some(step) = query.steps().first() else { continue };
        let what = Missing {
            op: step.op.name(),
            attributes: attribute_names(step.attrs),
            format: (query.format() != FormatId::NONE).then(|| format_name(query.format())),
            regime: regime_name(query.regime()),
        };
        match served.iter_mut().find(|(known, _)| *known == what) {
            Some((_, any)) => *any |= audited.serves > 0,
            None => served.push((what, audited.serves > 0)),
        }
    }
    served.into_iter().filter(|(_, any)| !any).map(|(what, _)| what).collect()
}

fn letter(clause: Option<Clause>) -> char {
    match clause {
        None => '.',
        Some(Clause::Format) => 'f',
        Some(Clause::Regime) => 'r',
        Some(_) => 's',
    }
}
