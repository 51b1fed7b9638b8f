//! The one clause test that resolving, explaining and auditing share.

use super::preference::{Capabilities, Preference};
use super::query::{RouteCall, RouteQuery};
use super::variant::{QueryOf, Route};

/// The gate of a row that is about other ops.
pub const PATTERN: &str = "pattern";

/// The clause that refused, in the order they are tested: a later one got further.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Clause {
    /// The table has no rows.
    Empty,
    /// It serves another format, or other ops and attributes.
    Format,
    /// It serves another regime.
    Regime,
    /// Its static half.
    Shape,
    /// The device lacks a capability, or cannot use the kernel.
    Unsupported,
    /// Its run-time half, or a measurement against it.
    Ready,
}

impl Clause {
    /// The clause's name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Clause::Empty => "empty",
            Clause::Format => "format",
            Clause::Regime => "regime",
            Clause::Shape => "shape",
            Clause::Unsupported => "unsupported",
            Clause::Ready => "ready",
        }
    }
}

/// Where a row was stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stop<'a> {
    pub(super) clause: Clause,
    /// The row's own name for the constraint.
    pub(super) gate: &'a str,
    /// Index in the row's needs of the capability that is missing.
    pub(super) need: Option<usize>,
}

impl Stop<'_> {
    /// How far the row came; larger is further. Registration order has no part in it.
    pub(super) fn reach(&self) -> (Clause, usize) {
        // A kernel is asked about after every capability.
        (self.clause, self.need.unwrap_or(usize::MAX))
    }
}

/// How much is asked of a row.
pub(super) enum Ask<'a, C: RouteCall> {
    /// Format, regime and shape.
    Declared(&'a C::Query),
    /// The same, and the device.
    Admissible(&'a C::Query, &'a dyn Capabilities),
    /// The same, and the moment.
    Picked(&'a C, &'a dyn Capabilities, &'a dyn Preference<C>),
}

impl<C: RouteCall> Ask<'_, C> {
    pub(super) fn query(&self) -> &C::Query {
        match self {
            Ask::Declared(query) | Ask::Admissible(query, _) => query,
            Ask::Picked(call, ..) => call.query(),
        }
    }
}

/// The clause a row is stopped by, or nothing when it is admitted. Allocates nothing.
pub(super) fn clause_of<'a, R: Route>(route: &'a R, ask: &Ask<'a, R::Call>) -> Option<Stop<'a>> {
    declared(route, ask.query()).or_else(|| match *ask {
        Ask::Declared(_) => None,
        Ask::Admissible(_, device) => unsupported(route, device),
        Ask::Picked(call, device, preference) => unsupported(route, device).or_else(|| {
            let gate = route.ready_refusal(call);
            let gate = gate.or_else(|| preference.refused(route.name(), call));
            let gate = gate.or_else(|| preference.held_back(route.name(), call))?;
            Some(Stop { clause: Clause::Ready, gate, need: None })
        }),
    })
}

fn declared<'a, R: Route>(route: &'a R, query: &QueryOf<R>) -> Option<Stop<'a>> {
    let stop = |clause, gate| Some(Stop { clause, gate, need: None });
    if route.format() != query.format() {
        return stop(Clause::Format, "format");
    }
    if let Some(gate) = route.format_refusal(query) {
        return stop(Clause::Format, gate);
    }
    if route.regime() != query.regime_of(route.covers()) {
        return stop(Clause::Regime, "regime");
    }
    stop(Clause::Shape, route.shape_refusal(query)?)
}

fn unsupported<'a, R: Route>(route: &'a R, device: &'a dyn Capabilities) -> Option<Stop<'a>> {
    let lacking = route.needs().iter().enumerate().find(|(_, need)| !device.supports(need.capability));
    if let Some((index, need)) = lacking {
        return Some(Stop { clause: Clause::Unsupported, gate: need.name.as_str(), need: Some(index) });
    }
    Some(Stop { clause: Clause::Unsupported, gate: device.unusable(route.name())?, need: None })
}
