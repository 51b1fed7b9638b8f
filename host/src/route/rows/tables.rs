//! The tables of a plugin: its rows by the op they begin with.

use cajeta_abi::{Capability, Layout, Row};
use cajeta_catalog::op::Op;

use super::route::RowRoute;
use crate::route::preference::Capabilities;
use crate::route::registry::Registry;
use crate::route::table::RouteTable;

/// One table an op of the catalog. Rows of ops it does not have are in none: nothing asks for them.
#[derive(Clone, Debug)]
pub struct RouteTables<'r> {
    /// By position in [`Op::ALL`].
    tables: Vec<RouteTable<RowRoute<'r>>>,
    /// Of an op that has no position.
    none: RouteTable<RowRoute<'r>>,
}

impl<'r> RouteTables<'r> {
    /// The tables of a registry.
    pub fn of(registry: &'r dyn Registry) -> RouteTables<'r> {
        RouteTables::new(registry.rows(), registry.layouts())
    }

    /// The tables of rows and the layouts their plugin owns.
    pub fn new(rows: &'r [Row], layouts: &'r [Layout]) -> RouteTables<'r> {
        let mut of: Vec<Vec<RowRoute<'r>>> = vec![Vec::new(); Op::ALL.len()];
        for (index, row) in rows.iter().enumerate() {
            if let Some((op, route)) = RowRoute::new(index, row, layouts)
                && let Some(list) = position(op).and_then(|at| of.get_mut(at))
            {
                list.push(route);
            }
        }
        let tables = Op::ALL.iter().zip(of).map(|(op, routes)| RouteTable::ordered(op.name(), routes));
        RouteTables { tables: tables.collect(), none: RouteTable::new("none") }
    }

    /// The table of one op alone, from the rows of a registry.
    pub fn only(op: Op, registry: &'r dyn Registry) -> RouteTable<RowRoute<'r>> {
        let routes = registry.rows().iter().enumerate().filter_map(|(index, row)| {
            (row.steps.first()?.op == op.id()).then(|| RowRoute::new(index, row, registry.layouts()))?
        });
        RouteTable::ordered(op.name(), routes.map(|(_, route)| route).collect())
    }

    /// The table of an op.
    pub fn table(&self, op: Op) -> &RouteTable<RowRoute<'r>> {
        position(op).and_then(|at| self.tables.get(at)).unwrap_or(&self.none)
    }
}

fn position(op: Op) -> Option<usize> {
    Op::ALL.iter().position(|known| *known == op)
}

/// A registry's device, as tables ask about it.
#[derive(Clone, Copy)]
pub struct OnDevice<'a>(pub &'a dyn Registry);

impl Capabilities for OnDevice<'_> {
    fn supports(&self, capability: Capability) -> bool {
        self.0.supports(capability)
    }

    fn unusable(&self, row: &str) -> Option<&str> {
        self.0.unusable(row)
    }
}
