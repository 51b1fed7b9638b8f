//! The admission test: one row against one query, clause by clause.

use cajeta_abi::{DtypeId, FormatId, LayoutId, ReadyKind, Row, ShapeGate, Test};
use cajeta_catalog::contract;
use cajeta_catalog::op::attr;
use cajeta_catalog::quant::{Format, type_name};

use super::query::{Operand, Query};
use super::refusal::{Clause, Refusal};
use super::registry::Registry;

/// Whether row `index` may serve the query. `resident` answers the run-time half: whether the weight
/// behind argument `i` is there in the layout the row reads.
///
/// The row's steps are already known to be the query's ops.
pub fn admit(
    registry: &dyn Registry,
    index: usize,
    query: &Query<'_>,
    resident: &dyn Fn(usize) -> bool,
) -> Result<(), Refusal> {
    let row = &registry.rows()[index];
    let refuse = |clause, gate: String| Err(Refusal { row: index, clause, gate });
    for (step, asked) in row.steps.iter().zip(query.steps) {
        if !attr::admits(step.attrs, asked.attrs) {
            let odd = (asked.attrs & !step.attrs) | ((asked.attrs ^ step.attrs) & attr::EXACT);
            return refuse(Clause::Format, format!("attribute {}", attribute_names(odd)));
        }
    }
    if let Some(gate) = format_gate(row, query) {
        return refuse(Clause::Format, gate);
    }
    if row.regime != query.regime {
        return refuse(Clause::Regime, format!("serves regime {}", regime_name(row.regime.0)));
    }
    if let Some(gate) = row.shape_gates.iter().find(|gate| !shape_holds(gate, row, query)) {
        return refuse(Clause::Shape, gate.name.to_string());
    }
    if let Some(need) = row.needs.iter().find(|need| !registry.supports(need.capability)) {
        return refuse(Clause::Unsupported, need.name.to_string());
    }
    for gate in row.ready_gates.iter() {
        let ready = match gate.kind {
            ReadyKind::LAYOUT_RESIDENT => (0..row.args.len()).all(resident),
            // No widened copies exist and nothing overrides a route yet, so these hold.
            ReadyKind::WIDEN_DECLINED | ReadyKind::NOT_OVERRIDDEN => true,
            _ => false,
        };
        if !ready {
            return refuse(Clause::Ready, gate.name.to_string());
        }
    }
    match (0..row.args.len()).find(|&arg| !resident(arg)) {
        Some(arg) => refuse(Clause::Ready, format!("argument {arg} is not resident in this row's layout")),
        None => Ok(()),
    }
}

/// The names of attribute bits.
pub fn attribute_names(bits: u64) -> String {
    let names: Vec<&str> =
        attr::NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    names.join("+")
}

/// A regime's name for messages.
pub(super) fn regime_name(regime: u32) -> String {
    match regime {
        1 => "decode-row".into(),
        2 => "prefill-batch".into(),
        3 => "bind".into(),
        4 => "fused-tail".into(),
        5 => "decode-cols".into(),
        other => other.to_string(),
    }
}

fn format_gate(row: &Row, query: &Query<'_>) -> Option<String> {
    for (position, (spec, operand)) in row.args.iter().zip(query.args).enumerate() {
        match *operand {
            Operand::Weight(format) if !reads(spec.format, spec.dtype, spec.layout, format) => {
                return Some(format!("argument {position} reads {}", format_name(spec.format)));
            }
            Operand::Activation(layout) if spec.layout != layout => {
                return Some(format!("argument {position} is in layout {}", spec.layout.0));
            }
            _ => {}
        }
    }
    None
}

/// Whether an argument takes a weight stored in `format`. Plain f32 is the same bytes as the file's F32.
fn reads(spec: FormatId, dtype: DtypeId, layout: LayoutId, format: FormatId) -> bool {
    let plain_f32 = spec == FormatId::NONE && dtype == DtypeId::F32 && layout == LayoutId::PLAIN;
    spec == format || (plain_f32 && format.0 == Format::F32.id())
}

fn format_name(format: FormatId) -> String {
    type_name(format.0).map_or_else(|| format!("format {}", format.0), str::to_string)
}

fn shape_holds(gate: &ShapeGate, row: &Row, query: &Query<'_>) -> bool {
    // A gate looks at the step the launch's problem is of, then at the others in order: head sizes
    // belong to the attention of a fusion whose problem is a projection's.
    let first = row.problem_step as usize;
    let order = std::iter::once(first).chain((0..query.steps.len()).filter(|&step| step != first));
    let value = order
        .filter_map(|step| query.steps.get(step))
        .find_map(|step| contract::subject(step.op, &step.problem, step.scalars, gate.subject));
    let Some(value) = value else { return false };
    let first = gate.values.first().copied();
    match (gate.test, first) {
        (Test::MULTIPLE_OF, Some(of)) => of != 0 && value % of == 0,
        (Test::AT_MOST, Some(limit)) => value <= limit,
        (Test::AT_LEAST, Some(limit)) => value >= limit,
        (Test::ONE_OF, _) => gate.values.contains(&value),
        // A test this host does not know cannot be vouched for.
        _ => false,
    }
}
