//! Which kernel runs: rows in tables, one table an op, resolved by one clause test.
//!
//! Three questions are kept apart. Capability is the device's to answer ([`Capabilities`]), cost is
//! measured ([`Preference`]), and which admitted row runs is the table's ([`RouteTable`]). A row is an
//! implementation of [`Route`]; those of plugins are in [`rows`], and a package with kernels of its own
//! registers others. Admission has two halves told apart by type: the static one is given a
//! [`RouteQuery`], the run-time one a [`RouteCall`], which holds one.

mod query;
mod variant;
mod preference;
mod clause;
mod refusal;
mod table;
mod audit;
mod registry;
pub mod rows;
pub mod usable;
pub mod survey;

pub use audit::{Audit, AuditedQuery, AuditedRow, Stopped};
pub use clause::{Clause, PATTERN};
pub use preference::{Capabilities, Declared, Origin, Preference, Preferred, Unheld};
pub use query::{RouteCall, RouteQuery};
pub use refusal::{NoRoute, RouteRefusal};
pub use registry::Registry;
pub use rows::attribute_names;
pub use table::{DuplicateRoute, Picked, RouteTable};
pub use variant::{GateValue, QueryOf, Route};
