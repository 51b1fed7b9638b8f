//! `cajeta kernels`: the selected backend's rows, or those that would serve a model, op by op.

use std::path::PathBuf;

use cajeta::engine::{DEFAULT_CHUNK, Model};
pub(crate) use cajeta::lower::any_layer;
use cajeta::lower::{Arm, Explained, Place, Placed, Program, Segment};
use cajeta::route::Registry;
use cajeta::tune::store::tune_directory;
use cajeta::tune::{Answers, Prewarm, Tuning};
use cajeta_abi::{FormatId, Row};
use cajeta_plugin_host::Device;
use clap::Args;
use serde::Serialize;

use super::facts::{RowFacts, format_name, layout_name};
use super::failure::{Failure, Outcome};
use super::lowering::{Lowering, open, usual_context};
use super::model::BackendFlags;
use super::output;
use super::table::Table;

const EXAMPLES: &str = "\
Examples:
  cajeta kernels                         every row of the selected backend
  cajeta kernels model.gguf              what a decode step and a prefill chunk of the model run on
  cajeta kernels model.gguf --rows 64 --ctx 4096 --json";

/// What was typed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Flags {
    /// The GGUF file; its weights are not loaded
    model: Option<PathBuf>,
    /// Rows of the prefill chunk
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CHUNK, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    rows: u32,
    /// Positions the attention reaches; the model's trained context, at most 8192, if absent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    ctx: Option<u32>,
    #[command(flatten)]
    backend: BackendFlags,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Prints rows.
pub(crate) fn run(flags: Flags) -> Outcome {
    let select = flags.backend.resolve()?;
    let Some(path) = &flags.model else {
        return registry(&open(&select)?, flags.json);
    };
    let model = Model::open(path)?;
    let trained = model.config.n_ctx_train;
    let ctx = flags.ctx.unwrap_or_else(|| usual_context(trained));
    if ctx > trained {
        return Err(Failure::work(format!(
            "--ctx {ctx} is more than the {trained} the model was trained for"
        )));
    }
    let device = open(&select)?;
    let mut lowering = Lowering::new(&device, &model.plan, ctx, flags.rows.min(ctx))?;
    let chunk = lowering.chunk;
    let segments = [
        ("decode step", Segment::Step, 1),
        ("prefill chunk", Segment::Body, chunk),
        ("prefill tail", Segment::TailToken, chunk),
    ];
    let answers = remembered(&device, &lowering, &segments)?;
    lowering.registry.settle(answers);
    let mut report = Report {
        model: path.display().to_string(),
        backend: device.backend().id().to_owned(),
        device: device.facts().name.to_string(),
        segments: Vec::new(),
    };
    for (name, segment, rows) in segments {
        let (program, choices) = (lowering.program(segment, rows, 1)?, lowering.explain(segment, rows, 1)?);
        report.segments.push(SegmentFacts::new(name, rows, &lowering, &program, &choices));
    }
    if flags.json { output::json(&report) } else { output::text(&report.describe()) }
}

/// What earlier runs measured about these launches. Nothing is timed.
fn remembered(
    device: &Device,
    lowering: &Lowering<'_>,
    segments: &[(&str, Segment, u32)],
) -> Outcome<Answers> {
    let tuning = Tuning::new(device, tune_directory(None).as_deref());
    let _hold = tuning.hold();
    let supports = |capability| lowering.registry.supports(capability);
    let mut prewarm = Prewarm::new(&tuning, device, &supports)?;
    for &(_, segment, rows) in segments {
        for Placed { row, problem, scalars, .. } in lowering.program(segment, rows, 1)?.launches {
            let asked = prewarm.launch(row, &problem, &scalars, &|_| None);
            asked.map_err(|error| Failure::work(error.to_string()))?;
        }
    }
    Ok(prewarm.finish())
}

/// Every row of a backend.
fn registry(device: &Device, json: bool) -> Outcome {
    #[derive(Serialize)]
    struct Rows<'a> {
        backend: &'a str,
        rows: Vec<RowFacts>,
    }
    let backend = device.backend();
    let rows = backend.rows().iter().map(|row| RowFacts::new(row, backend.layouts()));
    let registry = Rows { backend: backend.id(), rows: rows.collect() };
    if json {
        return output::json(&registry);
    }
    let mut table =
        Table::new(&["row", "ops", "regime", "formats", "arith", "prio", "needs", "gates", "layouts"]);
    for row in registry.rows {
        let ops = row.ops.join(" > ");
        let [formats, needs, gates, layouts] =
            [row.formats, row.needs, row.gates, row.layouts].map(|list| list.join(", "));
        table.row([
            row.name,
            ops,
            row.regime,
            formats,
            row.arith,
            row.priority.to_string(),
            needs,
            gates,
            layouts,
        ]);
    }
    output::text(&table.to_string())
}

#[derive(Serialize)]
struct Report {
    model: String,
    backend: String,
    device: String,
    segments: Vec<SegmentFacts>,
}

#[derive(Serialize)]
struct SegmentFacts {
    segment: &'static str,
    rows: u32,
    context: u32,
    arena_bytes: u64,
    scratch_bytes: u64,
    launches: Vec<Launch>,
}

#[derive(Serialize, PartialEq, Clone)]
struct Launch {
    /// The op and the value it writes.
    what: String,
    row: String,
    /// Where the choice came from: `declared`, `measured`, `stored` or `overridden`.
    chosen: &'static str,
    split: u32,
    problem: ProblemFacts,
    /// Format and layout of each weight argument.
    weights: Vec<String>,
    /// Layout of each other argument.
    layouts: Vec<String>,
    /// Other rows for the same ops, format and regime, in the order they are tried.
    alternatives: Vec<Alternative>,
}

/// A row that does not serve.
#[derive(Serialize, PartialEq, Clone)]
struct Alternative {
    row: String,
    /// Whether it is tried before the row that serves.
    ahead: bool,
    /// The clause that refused it; absent when it is admitted and stands behind.
    clause: Option<&'static str>,
    /// Its gate.
    gate: Option<String>,
    /// Every gate it has, with the value it sees.
    gates: Vec<Gate>,
}

#[derive(Serialize, PartialEq, Clone)]
struct Gate {
    gate: String,
    value: String,
    holds: bool,
}

#[derive(Serialize, PartialEq, Clone, Copy)]
struct ProblemFacts {
    m: u64,
    n: u64,
    k: u64,
    batch: u64,
    aux: u64,
}

impl SegmentFacts {
    fn new(
        segment: &'static str,
        rows: u32,
        lowering: &Lowering<'_>,
        program: &Program,
        choices: &[Explained],
    ) -> SegmentFacts {
        let launches = program.launches.iter().zip(choices);
        SegmentFacts {
            segment,
            rows,
            context: lowering.ctx,
            arena_bytes: program.arena,
            scratch_bytes: program.scratch,
            launches: launches.map(|(placed, choice)| launch(lowering, placed, choice)).collect(),
        }
    }
}

fn launch(lowering: &Lowering<'_>, placed: &Placed, choice: &Explained) -> Launch {
    let backend = lowering.registry.device().backend();
    let row: &Row = &backend.rows()[placed.row];
    let (mut weights, mut layouts) = (Vec::new(), Vec::new());
    for (spec, place) in row.args.iter().zip(&placed.args) {
        let layout = layout_name(spec.layout, spec.dtype, backend.layouts());
        match place {
            Place::Weight(_) if spec.format != FormatId::NONE => {
                weights.push(format!("{} {layout}", format_name(spec.format)));
            }
            Place::Absent => {}
            _ => layouts.push(layout),
        }
    }
    let problem = placed.problem;
    Launch {
        what: placed.what.clone(),
        row: row.name.to_string(),
        chosen: choice.origin.name(),
        split: placed.split,
        problem: ProblemFacts {
            m: problem.m,
            n: problem.n,
            k: problem.k,
            batch: problem.batch,
            aux: problem.aux,
        },
        weights,
        layouts,
        alternatives: choice.arms.iter().map(|arm| alternative(backend.rows(), arm)).collect(),
    }
}

fn alternative(rows: &[Row], arm: &Arm) -> Alternative {
    let gates = arm.gates.iter().map(|gate| Gate {
        gate: gate.gate.clone(),
        value: gate.value.clone(),
        holds: gate.holds,
    });
    Alternative {
        row: rows.get(arm.row).map(|row| row.name.to_string()).unwrap_or_default(),
        ahead: arm.ahead,
        clause: arm.refusal.as_ref().map(|refusal| refusal.clause.name()),
        gate: arm.refusal.as_ref().map(|refusal| refusal.gate.clone()),
        gates: gates.collect(),
    }
}

impl Report {
    fn describe(&self) -> String {
        let mut out = format!("{} on {}: {}\n", self.model, self.backend, self.device);
        for segment in &self.segments {
            let SegmentFacts { segment: name, rows, context, launches, .. } = segment;
            let plural = if *rows == 1 { "" } else { "s" };
            let count = launches.len();
            out.push_str(&format!("\n{name}: {rows} row{plural}, context {context}, {count} launches\n"));
            out.push_str(&table(launches).to_string());
            out.push_str(&refused(launches));
        }
        out
    }
}

/// The arms tried before the row that serves, each once, with the gates that refuse and what they saw.
fn refused(launches: &[Launch]) -> String {
    let mut lines: Vec<String> = Vec::new();
    for launch in launches {
        for arm in launch.alternatives.iter().filter(|arm| arm.ahead) {
            let refusing = arm.gates.iter().filter(|gate| !gate.holds);
            let refusing: Vec<String> =
                refusing.map(|gate| format!("{}: {}", gate.gate, gate.value)).collect();
            let clause = arm.clause.unwrap_or("measured");
            let gate = arm.gate.as_deref().unwrap_or("another of its family serves");
            let limits =
                if refusing.is_empty() { String::new() } else { format!(" ({})", refusing.join(", ")) };
            let line = format!("  refused {}: {clause}: {gate}{limits}\n", arm.row);
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines.concat()
}

/// Launches that differ by their layer only, once with their number.
fn grouped(launches: &[Launch]) -> Vec<(Launch, usize)> {
    let mut groups: Vec<(Launch, usize)> = Vec::new();
    for launch in launches {
        let launch = Launch { what: any_layer(&launch.what), alternatives: Vec::new(), ..launch.clone() };
        match groups.iter_mut().find(|(known, _)| *known == launch) {
            Some((_, count)) => *count += 1,
            None => groups.push((launch, 1)),
        }
    }
    groups
}

fn table(launches: &[Launch]) -> Table {
    let mut table = Table::new(&[
        "times", "computes", "row", "chosen", "weights", "layouts", "m", "n", "k", "batch", "split",
    ]);
    for (launch, count) in grouped(launches) {
        let Launch { what, row, chosen, split, problem, weights, layouts, .. } = launch;
        let [m, n, k, batch] = [problem.m, problem.n, problem.k, problem.batch].map(|size| size.to_string());
        table.row([
            count.to_string(),
            what,
            row,
            chosen.to_owned(),
            weights.join(", "),
            layouts.join(" "),
            m,
            n,
            k,
            batch,
            split.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_that_differ_by_layer_only_are_counted() {
        let launch = |layer: u32, n| Launch {
            what: format!("matmul blk.{layer}.q"),
            row: "r".into(),
            chosen: "declared",
            split: 1,
            problem: ProblemFacts { m: 1, n, k: 2, batch: 0, aux: 0 },
            weights: vec!["Q4_K gguf".into()],
            layouts: Vec::new(),
            alternatives: vec![Alternative {
                row: "faster".into(),
                ahead: true,
                clause: Some("shape"),
                gate: Some("M >= 64".into()),
                gates: vec![Gate { gate: "M >= 64".into(), value: "M=1".into(), holds: false }],
            }],
        };
        let launches = [launch(0, 4), launch(1, 4), launch(2, 8)];
        let table = table(&launches).to_string();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(lines[1].starts_with("2 ") && lines[2].starts_with("1 "), "{table}");
        assert_eq!(refused(&launches), "  refused faster: shape: M >= 64 (M >= 64: M=1)\n");
    }
}
