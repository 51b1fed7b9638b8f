//! A segment op by op: the row that serves, how it was chosen, and the arms that were not.

use cajeta_abi::{FormatId, Problem, Regime};
use cajeta_catalog::op::Op;
use cajeta_model_arch::plan::Plan;

use super::cover::{Choice, Cover, Edges, Resident};
use super::each::Each;
use super::sequence::{SeqOp, Sequence};
use super::{LowerError, NoRoute, Segment, Sizes, WeightKey, packs, regime};
use crate::route::rows::{BatchRefusal, OnDevice, RouteTables, RowCall, RowRoute};
use crate::route::{
    Clause, GateValue, Origin, Preference, Registry, Route, RouteQuery, RouteRefusal, Unheld,
};

/// One launch of a segment.
#[derive(Clone, PartialEq, Debug)]
pub struct Explained {
    /// What it computes: the op and the value written.
    pub what: String,
    /// The op it begins with.
    pub op: Op,
    /// The regime it is asked in.
    pub regime: Regime,
    /// Format of its weight, [`FormatId::NONE`] without one.
    pub format: FormatId,
    /// Problem of the op it begins with.
    pub problem: Problem,
    /// Launches it takes: one, or one for each sequence of a step.
    pub launches: u64,
    /// Index in the registry of the row that serves.
    pub row: usize,
    /// How the choice came about.
    pub origin: Origin,
    /// Why that row was to step back, where it serves because no other is admitted.
    pub despite: Option<String>,
    /// Rows for the same ops, format and regime, in the order they are tried.
    pub arms: Vec<Arm>,
}

/// A row that could have served.
#[derive(Clone, PartialEq, Debug)]
pub struct Arm {
    /// Its index in the registry.
    pub row: usize,
    /// Whether it is tried before the row that serves.
    pub ahead: bool,
    /// Why it does not serve; nothing when it is admitted and stands behind.
    pub refusal: Option<RouteRefusal>,
    /// Every gate of it with the value it sees.
    pub gates: Vec<GateValue>,
}

/// The launches of a lowered segment, in order.
///
/// # Errors
/// As [`super::lower`].
pub fn explain(
    registry: &dyn Registry,
    plan: &Plan,
    segment: Segment,
    sizes: &Sizes,
    resident: &dyn Fn(&WeightKey) -> bool,
) -> Result<Vec<Explained>, LowerError> {
    Ok(explain_some(registry, plan, segment, sizes, resident, &mut |_| true)?)
}

/// The launches of a lowered segment; arms only of those that `wanted` answers true for.
pub(super) fn explain_some(
    registry: &dyn Registry,
    plan: &Plan,
    segment: Segment,
    sizes: &Sizes,
    resident: &dyn Fn(&WeightKey) -> bool,
    wanted: &mut dyn FnMut(&Explained) -> bool,
) -> Result<Vec<Explained>, NoRoute> {
    let plain = Sequence::new(plan, segment, sizes);
    let (tables, regime) = (RouteTables::of(registry), regime(segment, sizes));
    let cover =
        |sequence, edges| Cover { registry, tables: &tables, plan, sequence, regime, resident, edges };
    let free = cover(&plain, Edges::Packable);
    let packed = packs::insert_packs(registry, &plain, &free.choose()?);
    let exact = cover(&packed, Edges::Exact);
    let (free_questions, exact_questions) = (free.questions(), exact.questions());
    let places = places(&plain, &packed);
    let (ready, each) = (Resident::new(registry, plan, resident), Each::of(&exact));
    let mut explained = Vec::new();
    for Choice { row, start, len, origin, launches, .. } in exact.choose()? {
        // Once an input is packed, rows that read it plain look refused. They are asked as before.
        let query = match places.get(start) {
            Some(Some(place)) => free_questions.at(*place),
            _ => exact_questions.at(start),
        };
        let (first, last): (&SeqOp, &SeqOp) = (&packed.ops[start], &packed.ops[start + len - 1]);
        let together = RowCall { query, ready: &ready };
        let alone = each.as_ref().filter(|_| launches > 1).map(|each| each.question(start));
        let call = RowCall { query: alone.unwrap_or(query), ready: &ready };
        let mut launch = Explained {
            what: packed.describe(last),
            op: first.op,
            regime: call.query.regime(),
            format: call.query.format(),
            problem: Problem { m: if launches > 1 { 1 } else { first.problem.m }, ..first.problem },
            launches,
            row,
            origin,
            despite: held_back(registry, row, &call),
            arms: Vec::new(),
        };
        if wanted(&launch) {
            launch.arms = if launch.despite.is_some() {
                arms(registry, &Unheld(registry.preference()), &tables, first.op, row, &call)
            } else {
                arms(registry, registry.preference(), &tables, first.op, row, &call)
            };
            if launches > 1 {
                launch.arms.splice(0..0, slower(registry, &tables, first.op, &together));
            }
        }
        explained.push(launch);
    }
    Ok(explained)
}

/// The row that would serve all sequences in one launch, which was measured to be slower, or answers wrong.
fn slower<'r>(
    registry: &'r dyn Registry,
    tables: &RouteTables<'r>,
    op: Op,
    call: &RowCall<'r>,
) -> Option<Arm> {
    let (device, table) = (OnDevice(registry), tables.table(op));
    let Some(picked) = table.pick(call, &device, registry.preference()) else {
        let wrong = |route: &&RowRoute<'_>| {
            let asked_for = route.format() == call.query.format() && route.regime() == call.query.regime();
            asked_for && registry.preference().refused(route.name(), call).is_some()
        };
        let route = table.routes().iter().find(wrong)?;
        let refusal = table.refusal(route, call, &device, registry.preference());
        let gates = table.gate_values(route, call, &device);
        return Some(Arm { row: route.index(), ahead: true, refusal, gates });
    };
    let route = picked.route;
    let refusal = RouteRefusal {
        table: table.name().to_owned(),
        asked: call.query.describe(),
        regime: call.query.regime(),
        format: call.query.format(),
        row: route.name().to_owned(),
        clause: Clause::Ready,
        gate: BatchRefusal::ColsPay.to_string(),
        need: None,
    };
    let gates = table.gate_values(route, call, &device);
    Some(Arm { row: route.index(), ahead: true, refusal: Some(refusal), gates })
}

/// Why a row that serves was to step back.
fn held_back(registry: &dyn Registry, row: usize, call: &RowCall<'_>) -> Option<String> {
    let name = registry.rows().get(row).map_or("", |row| row.name.as_str());
    registry.preference().held_back(name, call).map(str::to_owned)
}

/// The rows beside the one that serves.
fn arms<'r>(
    registry: &'r dyn Registry,
    preference: &dyn Preference<RowCall<'r>>,
    tables: &RouteTables<'r>,
    op: Op,
    serving: usize,
    call: &RowCall<'r>,
) -> Vec<Arm> {
    let (device, table) = (OnDevice(registry), tables.table(op));
    let mut ahead = true;
    let mut arms = Vec::new();
    for route in table.routes() {
        if route.index() == serving {
            ahead = false;
            continue;
        }
        let clause = table.clause(route, call, &device, preference);
        if clause.is_some_and(|clause| clause < Clause::Shape) {
            continue;
        }
        arms.push(Arm {
            row: route.index(),
            ahead,
            refusal: table.refusal(route, call, &device, preference),
            gates: table.gate_values(route, call, &device),
        });
    }
    arms
}

/// Where each op of a packed sequence is in the plain one; nothing for a pack that was inserted.
fn places(plain: &Sequence, packed: &Sequence) -> Vec<Option<usize>> {
    let mut next = 0;
    let place = |op: &SeqOp| {
        let same = plain.ops.get(next).is_some_and(|known| known.op == op.op);
        same.then(|| {
            next += 1;
            next - 1
        })
    };
    packed.ops.iter().map(place).collect()
}

/// `matmul blk.3.attn_q` as `matmul blk.*.attn_q`.
pub fn any_layer(what: &str) -> String {
    let Some((before, after)) = what.split_once("blk.") else { return what.to_owned() };
    let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == after.len() { what.to_owned() } else { format!("{before}blk.*{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_fold_into_one_name() {
        assert_eq!(any_layer("matmul blk.31.attn_q"), "matmul blk.*.attn_q");
        assert_eq!(any_layer("sample"), "sample");
        assert_eq!(any_layer("x blk.y"), "x blk.y");
    }
}
