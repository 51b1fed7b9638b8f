//! Rows of a plugin as routes: what they are held against, and the tables they make, one an op.

mod names;
mod query;
mod pattern;
mod gates;
mod route;
mod tables;
mod batch;

pub use batch::{BatchRefusal, batch_refusal};
pub use names::{attribute_names, format_name, regime_name};
pub use query::{
    QueryOperand, QueryStep, ReadyState, RowCall, RowPreference, RowQuery, Tensors, format_operand,
};
pub use route::RowRoute;
pub use tables::{OnDevice, RouteTables};
