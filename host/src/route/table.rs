//! A table of routes: one question, the row that serves it, or why none does.

use std::collections::HashSet;

use thiserror::Error;

use super::clause::{Ask, Clause, Stop, clause_of};
use super::preference::{Capabilities, Origin, Preference, Unheld};
use super::query::RouteQuery;
use super::refusal::{RouteRefusal, SERVES};
use super::variant::{GateValue, QueryOf, Route};

/// Two rows of one table have one name, so that a refusal would not say which.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("table {table} has a row `{row}` already; give this one a name of its own")]
pub struct DuplicateRoute {
    /// The table.
    pub table: String,
    /// The name.
    pub row: String,
}

/// The rows of one op, in the order they are tried.
///
/// The order is priority, then ops covered, then name: in whatever order rows are registered, the
/// answers are the same.
#[derive(Clone, Debug)]
pub struct RouteTable<R> {
    name: String,
    routes: Vec<R>,
}

/// The row that serves, and why that one.
#[derive(Debug)]
pub struct Picked<'t, R> {
    /// The row.
    pub route: &'t R,
    /// How the choice came about.
    pub origin: Origin,
}

impl<R: Route> RouteTable<R> {
    /// A table without rows. `name` is what it is of: an op.
    pub fn new(name: impl Into<String>) -> RouteTable<R> {
        RouteTable { name: name.into(), routes: Vec::new() }
    }

    /// A table of these rows.
    ///
    /// # Errors
    /// When two of them have one name.
    pub fn of(name: impl Into<String>, routes: Vec<R>) -> Result<RouteTable<R>, DuplicateRoute> {
        let table = RouteTable::ordered(name, routes);
        let mut names = HashSet::new();
        if let Some(twice) = table.routes.iter().find(|route| !names.insert(route.name())) {
            return Err(DuplicateRoute { table: table.name.clone(), row: twice.name().to_owned() });
        }
        Ok(table)
    }

    /// A table of rows whose names are known to differ: a plugin's, once its registry was checked.
    pub(super) fn ordered(name: impl Into<String>, routes: Vec<R>) -> RouteTable<R> {
        let mut table = RouteTable { name: name.into(), routes };
        table.sort();
        table
    }

    /// Adds a row.
    ///
    /// # Errors
    /// When its name is taken.
    pub fn register(&mut self, route: R) -> Result<(), DuplicateRoute> {
        if self.routes.iter().any(|known| known.name() == route.name()) {
            return Err(DuplicateRoute { table: self.name.clone(), row: route.name().to_owned() });
        }
        self.routes.push(route);
        self.sort();
        Ok(())
    }

    fn sort(&mut self) {
        self.routes.sort_by(|a, b| {
            let order = b.priority().cmp(&a.priority()).then(b.covers().cmp(&a.covers()));
            order.then_with(|| a.name().cmp(b.name()))
        });
    }

    /// What the table is of.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its rows in the order they are tried.
    pub fn routes(&self) -> &[R] {
        &self.routes
    }

    /// The row that serves a query as far as declared facts say; no device is asked. Allocates nothing.
    pub fn declared(&self, query: &QueryOf<R>) -> Option<&R> {
        self.first(&Ask::Declared(query))
    }

    /// The row that serves a query as far as declared facts and the device say. Allocates nothing.
    pub fn admissible(&self, query: &QueryOf<R>, device: &dyn Capabilities) -> Option<&R> {
        self.first(&Ask::Admissible(query, device))
    }

    /// The row that serves a call now. Measurement chooses within the family that comes first; a family
    /// is never left for another by it. Rows that are held back come last: one of them serves where no
    /// other row is admitted. Allocates nothing.
    pub fn pick(
        &self,
        call: &R::Call,
        device: &dyn Capabilities,
        preference: &dyn Preference<R::Call>,
    ) -> Option<Picked<'_, R>> {
        let picked = self.pick_by(call, device, preference);
        picked.or_else(|| self.pick_by(call, device, &Unheld(preference)))
    }

    fn pick_by(
        &self,
        call: &R::Call,
        device: &dyn Capabilities,
        preference: &dyn Preference<R::Call>,
    ) -> Option<Picked<'_, R>> {
        let ask = Ask::Picked(call, device, preference);
        let first = self.first(&ask)?;
        let preferred = Some(first.family())
            .filter(|family| !family.is_empty())
            .and_then(|family| preference.prefer(family, call));
        let member = preferred.and_then(|preferred| {
            let mut family = self.routes.iter().filter(|route| route.family() == first.family());
            let route = family.find(|route| route.name() == preferred.row)?;
            clause_of(route, &ask).is_none().then_some(Picked { route, origin: preferred.origin })
        });
        let picked = member.unwrap_or(Picked { route: first, origin: Origin::Declared });
        let confirmed = preference.confirmed(picked.route.name(), call);
        let origin = match (picked.origin, confirmed) {
            (Origin::Declared, Some(confirmed)) => confirmed,
            (known, _) => known,
        };
        Some(Picked { origin, ..picked })
    }

    /// Every row that serves a query as far as declared facts and the device say, the first choice first.
    pub fn candidates<'t>(&'t self, query: &QueryOf<R>, device: &dyn Capabilities, out: &mut Vec<&'t R>) {
        let ask = Ask::Admissible(query, device);
        out.clear();
        out.extend(self.routes.iter().filter(|route| clause_of(*route, &ask).is_none()));
    }

    /// Why [`RouteTable::admissible`] answers nothing; nothing when it answers a row.
    pub fn why_not_admissible(&self, query: &QueryOf<R>, device: &dyn Capabilities) -> Option<RouteRefusal> {
        self.furthest(&Ask::Admissible(query, device))
    }

    /// Why [`RouteTable::pick`] answers nothing; nothing when it answers a row.
    pub fn why_not_picked(
        &self,
        call: &R::Call,
        device: &dyn Capabilities,
        preference: &dyn Preference<R::Call>,
    ) -> Option<RouteRefusal> {
        self.furthest(&Ask::Picked(call, device, &Unheld(preference)))
    }

    /// The clause that stops one row at a call; nothing when it is admitted. A row that is held back is
    /// stopped, though it serves where all others are: ask with [`Unheld`] there. Allocates nothing.
    pub fn clause(
        &self,
        route: &R,
        call: &R::Call,
        device: &dyn Capabilities,
        preference: &dyn Preference<R::Call>,
    ) -> Option<Clause> {
        clause_of(route, &Ask::Picked(call, device, preference)).map(|stop| stop.clause)
    }

    /// Why one row does not serve a call; nothing when it is admitted, as [`RouteTable::clause`] says it.
    pub fn refusal(
        &self,
        route: &R,
        call: &R::Call,
        device: &dyn Capabilities,
        preference: &dyn Preference<R::Call>,
    ) -> Option<RouteRefusal> {
        let ask = Ask::Picked(call, device, preference);
        let stop = clause_of(route, &ask)?;
        Some(self.refused(&ask, Some((route, stop))))
    }

    /// Every gate of a row with the value it sees at a call, the device's first.
    pub fn gate_values(&self, route: &R, call: &R::Call, device: &dyn Capabilities) -> Vec<GateValue> {
        let answer = |gate: &str, holds: bool, value: &str| GateValue {
            gate: gate.to_owned(),
            value: value.to_owned(),
            holds,
        };
        let needs = route.needs().iter().map(|need| {
            let holds = device.supports(need.capability);
            answer(need.name.as_str(), holds, if holds { "yes" } else { "no" })
        });
        let mut values: Vec<GateValue> = needs.collect();
        let unusable = device.unusable(route.name());
        values.push(answer("usable", unusable.is_none(), unusable.unwrap_or("yes")));
        values.extend(route.gates(call));
        values
    }

    fn first(&self, ask: &Ask<'_, R::Call>) -> Option<&R> {
        self.routes.iter().find(|route| clause_of(*route, ask).is_none())
    }

    /// The refusal of the row that got furthest; among equals the one tried first.
    fn furthest(&self, ask: &Ask<'_, R::Call>) -> Option<RouteRefusal> {
        let mut furthest: Option<(&R, Stop<'_>)> = None;
        for route in &self.routes {
            let stop = clause_of(route, ask)?;
            if furthest.is_none_or(|(_, best)| stop.reach() > best.reach()) {
                furthest = Some((route, stop));
            }
        }
        Some(self.refused(ask, furthest))
    }

    fn refused(&self, ask: &Ask<'_, R::Call>, stopped: Option<(&R, Stop<'_>)>) -> RouteRefusal {
        let query = ask.query();
        let mut refusal = RouteRefusal {
            table: self.name.clone(),
            asked: query.describe(),
            regime: query.regime(),
            format: query.format(),
            row: String::new(),
            clause: Clause::Empty,
            gate: String::new(),
            need: None,
        };
        if let Some((route, stop)) = stopped {
            refusal.row = route.name().to_owned();
            (refusal.clause, refusal.need) = (stop.clause, stop.need);
            refusal.gate = match (stop.clause, stop.gate) {
                (Clause::Format, "format") => {
                    format!("{SERVES}{}", <QueryOf<R> as RouteQuery>::format_name(route.format()))
                }
                (Clause::Regime, _) => {
                    format!("{SERVES}{}", <QueryOf<R> as RouteQuery>::regime_name(route.regime()))
                }
                (_, gate) => gate.to_owned(),
            };
        }
        refusal
    }
}
