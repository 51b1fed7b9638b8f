//! Questions that some row would serve at another size: what gates alone turn away.

use cajeta::route::rows::{format_name, regime_name};
use cajeta::route::survey::Question;
use cajeta::route::{AuditedQuery, Clause, RouteQuery};
use cajeta_abi::FormatId;
use serde::Serialize;

/// What one gate turns away from an op.
#[derive(Serialize, PartialEq, Clone, Debug)]
pub(super) struct Gated {
    pub(super) op: &'static str,
    /// The gate of the row that got furthest.
    pub(super) gate: String,
    /// Questions it turns away.
    pub(super) questions: usize,
    pub(super) regimes: Vec<String>,
    pub(super) formats: Vec<String>,
    /// Outputs and inputs of the questions' problems.
    pub(super) sizes: Vec<[u64; 2]>,
}

/// The questions of one op that no row serves and that a shape gate stopped, by that gate.
pub(super) fn of<'a>(asked: impl Iterator<Item = (&'a Question, &'a AuditedQuery)>) -> Vec<Gated> {
    let mut gates: Vec<Gated> = Vec::new();
    for (question, audited) in asked {
        let Some(stopped) = audited.stopped.as_ref().filter(|stop| stop.clause == Clause::Shape.name())
        else {
            continue;
        };
        let query = question.query();
        let Some(step) = query.steps().first() else { continue };
        let known = gates.iter().position(|gated| gated.gate == stopped.gate);
        let index = known.unwrap_or_else(|| {
            gates.push(Gated {
                op: step.op.name(),
                gate: stopped.gate.clone(),
                questions: 0,
                regimes: Vec::new(),
                formats: Vec::new(),
                sizes: Vec::new(),
            });
            gates.len() - 1
        });
        let Some(gated) = gates.get_mut(index) else { continue };
        gated.questions += 1;
        insert(&mut gated.regimes, regime_name(query.regime()));
        insert(&mut gated.sizes, [step.problem.n, step.problem.k]);
        if query.format() != FormatId::NONE {
            insert(&mut gated.formats, format_name(query.format()));
        }
    }
    gates
}

fn insert<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
