//! Which kernels may serve an op: rows held against what is asked, refusals by the gate's own name.

mod registry;
mod query;
mod admit;
mod refusal;

pub use admit::{admit, attribute_names};
pub use query::{Operand, Query, QueryStep};
pub use refusal::{Clause, NoRoute, Refusal};
pub use registry::Registry;
