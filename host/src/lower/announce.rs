//! Says once which row serves a projection, and once of each arm ahead of it why it does not, with every
//! gate's value: a route that fell to a slower arm is never silent.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use cajeta_abi::FormatId;
use cajeta_catalog::op::Op;
use cajeta_model_arch::plan::Plan;

use super::explain::{Arm, Explained, any_layer, explain_some};
use super::{Segment, Sizes, WeightKey};
use crate::record::{BatchRoute, Record, RouteRefused};
use crate::route::rows::{format_name, regime_name};
use crate::route::{Registry, RouteRefusal};

/// What was said by this process.
static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Whether something is said for the first time.
fn first(words: String) -> bool {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(words)
}

/// Announces the projections of a segment that is about to run and were not announced before. Costs two
/// comparisons when nobody listens.
pub fn announce(
    registry: &dyn Registry,
    plan: &Plan,
    segment: Segment,
    sizes: &Sizes,
    resident: &dyn Fn(&WeightKey) -> bool,
) {
    let routes = tracing::enabled!(target: "cajeta::batch-route", tracing::Level::INFO);
    if !routes && !tracing::enabled!(target: "cajeta::route-refused", tracing::Level::INFO) {
        return;
    }
    let name = |row: usize| registry.rows().get(row).map_or("?", |row| row.name.as_str());
    let fresh = |launch: &Explained| {
        let site = any_layer(&launch.what);
        launch.op == Op::Matmul
            && first(format!("{site} {} {} {}", name(launch.row), launch.regime.0, launch.format.0))
    };
    let mut said = Vec::new();
    let mut wanted = |launch: &Explained| {
        said.push(fresh(launch));
        said.last().copied().unwrap_or(false)
    };
    // That nothing serves is for whoever lowers to say.
    let launches = explain_some(registry, plan, segment, sizes, resident, &mut wanted).unwrap_or_default();
    for (launch, _) in launches.iter().zip(said).filter(|(_, said)| *said) {
        let passed_over = launch.arms.iter().find(|arm| arm.ahead && arm.refusal.is_none());
        Record::from(route(launch, name(launch.row), passed_over.map(|arm| name(arm.row)))).emit();
        for arm in launch.arms.iter().filter(|arm| arm.ahead) {
            if let Some(refusal) = &arm.refusal
                && first(format!("{} {}", refusal.row, refusal.gate))
            {
                Record::from(refused(launch, arm, refusal)).emit();
            }
        }
    }
}

fn route(launch: &Explained, row: &str, instead_of: Option<&str>) -> BatchRoute {
    BatchRoute {
        site: any_layer(&launch.what),
        row: row.to_owned(),
        regime: regime_name(launch.regime),
        format: (launch.format != FormatId::NONE).then(|| format_name(launch.format)),
        problem: [launch.problem.m, launch.problem.n, launch.problem.k],
        chosen: launch.origin.name().to_owned(),
        instead_of: instead_of.map(str::to_owned),
        despite: launch.despite.clone(),
        launches: launch.launches,
    }
}

fn refused(launch: &Explained, arm: &Arm, refusal: &RouteRefusal) -> RouteRefused {
    let values: Vec<String> = arm.gates.iter().map(ToString::to_string).collect();
    RouteRefused {
        asked: any_layer(&launch.what),
        row: refusal.row.clone(),
        clause: refusal.clause.name().to_owned(),
        gate: format!("{} ({})", refusal.gate, values.join(", ")),
    }
}
