//! Rules that a registry keeps as a whole: rows that could never serve, and layouts that nobody makes.
//!
//! A plugin whose rows contradict themselves or each other is refused. A row for a newer host, of an op
//! or a capability this one does not have, is refused by itself: nothing asks for it, and the plugin's
//! other rows serve.

use std::path::Path;

use cajeta_abi::{Access, Capability, Layout, LayoutId, LayoutKind, Row, ShapeGate, Subject, Test};
use cajeta_catalog::op::Op;

use crate::candidate::Refusal;
use crate::rows::broken;

/// A row that is not used, in a plugin that is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusedRow {
    /// Its number.
    pub row: usize,
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Holds rows that are well formed one by one ([`crate::rows::check`]) against each other. Answers the
/// rows that are not used.
///
/// # Errors
/// Stage layout: a row that can never serve or that reads what nothing makes, by its name; or no row that
/// can be used.
pub fn check(rows: &[Row], layouts: &[Layout], path: &Path) -> Result<Vec<RefusedRow>, Refusal> {
    let mut refused = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let name = row.name.as_str();
        let rule = contradiction(row).or_else(|| unmade(row, rows, layouts));
        if let Some(rule) = rule {
            return Err(broken(path, "rows", format!("row {index} `{name}`: {rule}")));
        }
        if let Some(reason) = of_tomorrow(row) {
            refused.push(RefusedRow { row: index, name: name.to_owned(), reason });
        }
    }
    match refused.first() {
        Some(RefusedRow { row, name, reason }) if refused.len() == rows.len() => {
            Err(broken(path, "rows", format!("no row can be used; row {row} `{name}`: {reason}")))
        }
        _ => Ok(refused),
    }
}

/// What makes a row impossible whatever it is asked.
fn contradiction(row: &Row) -> Option<String> {
    if row.steps.iter().any(|step| step.op.0 == 0) {
        return Some("op 0 is none".into());
    }
    if let Some(need) = row.needs.iter().find(|need| need.capability.0 == 0) {
        return Some(format!("need `{}` is of capability 0, which is none", need.name));
    }
    row.shape_gates.iter().find_map(|gate| {
        if smallest(row, gate.subject).is_some() {
            return None;
        }
        let about = row.shape_gates.iter().filter(|other| other.subject == gate.subject);
        let names: Vec<String> = about.map(|gate| format!("`{}`", gate.name)).collect();
        Some(format!("no size passes {}", names.join(" and ")))
    })
}

/// The smallest size of a subject that all gates of a row admit: one or more if there is such, else none
/// at all. Nothing where they contradict each other.
pub fn smallest(row: &Row, subject: Subject) -> Option<u64> {
    let gates = || row.shape_gates.iter().filter(|gate| gate.subject == subject);
    let admits = |value: u64| gates().all(|gate| holds(gate, value));
    let listed =
        gates().filter(|gate| gate.test == Test::ONE_OF).flat_map(|gate| gate.values.iter().copied());
    let mut listed: Vec<u64> = listed.filter(|value| admits(*value)).collect();
    if gates().any(|gate| gate.test == Test::ONE_OF) {
        listed.sort_unstable();
        return listed.iter().copied().find(|value| *value > 0).or(listed.first().copied());
    }
    let first = |test| gates().filter(move |gate| gate.test == test).filter_map(|gate| gate.values.first());
    let step = first(Test::MULTIPLE_OF).try_fold(1u64, |step, of| {
        let shared = gcd(step, *of).max(1);
        step.checked_mul(of / shared)
    });
    let least = first(Test::AT_LEAST).copied().max().unwrap_or(0);
    let reached = step.and_then(|step| least.max(1).div_ceil(step.max(1)).checked_mul(step));
    reached.filter(|value| admits(*value)).or_else(|| admits(0).then_some(0))
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// As a host tests it; a test nobody knows admits nothing later and contradicts nothing here.
fn holds(gate: &ShapeGate, value: u64) -> bool {
    match (gate.test, gate.values.first().copied()) {
        (Test::MULTIPLE_OF, Some(of)) => of != 0 && value.is_multiple_of(of),
        (Test::AT_MOST, Some(limit)) => value <= limit,
        (Test::AT_LEAST, Some(limit)) => value >= limit,
        (Test::ONE_OF, _) => gate.values.contains(&value),
        _ => true,
    }
}

/// A layout of the plugin's own that a row reads and no row makes.
fn unmade(row: &Row, rows: &[Row], layouts: &[Layout]) -> Option<String> {
    row.args.iter().enumerate().find_map(|(index, arg)| {
        let own = arg.layout.0.checked_sub(LayoutId::OWN.0)? as usize;
        let layout = layouts.get(own)?;
        let made = rows.iter().any(|maker| {
            let writes = maker.args.iter().any(|out| out.layout == arg.layout && out.access != Access::READ);
            // A weight's layout is made from the format that the row reads it in.
            let from = layout.kind != LayoutKind::WEIGHT
                || maker.args.iter().any(|source| {
                    source.access == Access::READ
                        && source.layout != arg.layout
                        && source.format == arg.format
                });
            writes && from && (layout.kind != LayoutKind::WEIGHT || is_relayout(maker))
        });
        (arg.access == Access::READ && !made)
            .then(|| format!("argument {index} reads layout `{}`, which no row makes", layout.name))
    })
}

fn is_relayout(row: &Row) -> bool {
    row.steps.len() == 1 && row.steps.first().is_some_and(|step| step.op == Op::Relayout.id())
}

/// What this host's catalog or vocabulary lacks of a row.
fn of_tomorrow(row: &Row) -> Option<String> {
    let unknown = row.steps.iter().find(|step| Op::from_id(step.op).is_none());
    if let Some(step) = unknown {
        return Some(format!("op {} is not in this host's catalog", step.op.0));
    }
    let known = Capability::IMPORT.0..=Capability::BULK_COPY.0;
    let needs = row.needs.iter().filter(|need| need.capability < Capability::PRIVATE);
    let need = needs.into_iter().find(|need| !known.contains(&need.capability.0));
    need.map(|need| {
        format!(
            "need `{}` is capability {}, which is neither of this host's vocabulary nor private",
            need.name, need.capability.0
        )
    })
}

#[cfg(test)]
mod tests {
    use abi_stable::std_types::{RSlice, RStr};
    use cajeta_abi::{Arith, Regime};
    use proptest::prelude::*;

    use super::*;

    fn gated(gates: &[(Test, u64)]) -> Row {
        let gate = |&(test, value): &(Test, u64)| ShapeGate {
            name: RStr::from_str("K"),
            subject: Subject::K,
            test,
            values: RSlice::from_slice(Vec::leak(vec![value])),
        };
        Row {
            name: RStr::from_str("row"),
            family: RStr::from_str(""),
            regime: Regime::DECODE_ROW,
            arith: Arith::F32,
            priority: 0,
            steps: RSlice::EMPTY,
            problem_step: 0,
            args: RSlice::EMPTY,
            needs: RSlice::EMPTY,
            shape_gates: RSlice::from_slice(Vec::leak(gates.iter().map(gate).collect())),
            ready_gates: RSlice::EMPTY,
        }
    }

    #[test]
    fn sizes_that_pass_are_found_and_contradictions_have_none() {
        let least = |gates: &[(Test, u64)]| smallest(&gated(gates), Subject::K);
        assert_eq!(least(&[]), Some(1));
        assert_eq!(least(&[(Test::MULTIPLE_OF, 6), (Test::MULTIPLE_OF, 4), (Test::AT_LEAST, 13)]), Some(24));
        assert_eq!(least(&[(Test::AT_MOST, 1), (Test::AT_LEAST, 64)]), None);
        assert_eq!(least(&[(Test::MULTIPLE_OF, 256), (Test::AT_MOST, 255)]), Some(0), "only nothing passes");
        assert_eq!(least(&[(Test::MULTIPLE_OF, 256), (Test::AT_MOST, 255), (Test::AT_LEAST, 1)]), None);
        assert_eq!(least(&[(Test::ONE_OF, 64), (Test::AT_LEAST, 65)]), None);
        assert_eq!(least(&[(Test::ONE_OF, 64), (Test::MULTIPLE_OF, 16)]), Some(64));
        assert_eq!(least(&[(Test::AT_LEAST, u64::MAX), (Test::MULTIPLE_OF, 2)]), None);
        assert_eq!(smallest(&gated(&[(Test::AT_MOST, 0)]), Subject::M), Some(1), "another subject");
    }

    proptest! {
        #[test]
        fn whatever_passes_is_not_called_a_contradiction(
            gates in prop::collection::vec((0u32..4, 0u64..40), 0..5), value in 1u64..200,
        ) {
            let gates: Vec<(Test, u64)> = gates
                .into_iter()
                .map(|(test, value)| (Test(test), if test == 0 { value.max(1) } else { value }))
                .collect();
            let row = gated(&gates);
            let passes = |value| row.shape_gates.iter().all(|gate| holds(gate, value));
            let least = smallest(&row, Subject::K);
            prop_assert!(least.is_none_or(passes));
            if passes(value) {
                prop_assert!(least.is_some_and(|least| least <= value));
            }
        }
    }
}
