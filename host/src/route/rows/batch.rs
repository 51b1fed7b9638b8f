//! Whether a projection is computed for several rows at once: the gates that are asked before any arm.

use std::fmt;

use cajeta_abi::FormatId;

use super::names::format_name;
use super::query::RowCall;
use super::route::RowRoute;
use crate::route::preference::{Capabilities, Preference};
use crate::route::query::RouteQuery;
use crate::route::refusal::RouteRefusal;
use crate::route::table::RouteTable;
use crate::route::variant::Route;

/// The first gate that refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BatchRefusal {
    /// There is no stored weight.
    Weight,
    /// Somebody turned routing off.
    Routing,
    /// The backend has no kernel for several rows.
    Kernel,
    /// None of its kernels for several rows reads the weight's format.
    Format(FormatId),
    /// No arm for the format is admitted.
    Arms(Box<RouteRefusal>),
    /// An arm is admitted and a launch for each sequence was measured to beat it.
    ColsPay,
}

impl fmt::Display for BatchRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BatchRefusal::Weight => f.write_str("stored weight: there is none"),
            BatchRefusal::Routing => f.write_str("routing on: it is off"),
            BatchRefusal::Kernel => f.write_str("batch kernel: the backend has none for the regime"),
            BatchRefusal::Format(format) => {
                write!(f, "format admitted: no batch kernel reads {}", format_name(*format))
            }
            BatchRefusal::Arms(refusal) => {
                write!(f, "{}: {}: {}", refusal.row, refusal.clause.name(), refusal.gate)
            }
            BatchRefusal::ColsPay => f.write_str("colsPays: measured slower than single rows"),
        }
    }
}

/// Why a projection is not computed for several rows at once; nothing when an arm serves.
pub fn batch_refusal<'r>(
    table: &RouteTable<RowRoute<'r>>,
    call: &RowCall<'r>,
    device: &dyn Capabilities,
    preference: &dyn Preference<RowCall<'r>>,
) -> Option<BatchRefusal> {
    let (regime, format) = (call.query.regime(), call.query.format());
    let of_the_regime = || table.routes().iter().filter(|route| route.regime() == regime);
    if format == FormatId::NONE {
        return Some(BatchRefusal::Weight);
    }
    if !call.ready.routing() {
        return Some(BatchRefusal::Routing);
    }
    if of_the_regime().next().is_none() {
        return Some(BatchRefusal::Kernel);
    }
    if !of_the_regime().any(|route| route.format() == format) {
        return Some(BatchRefusal::Format(format));
    }
    let refusal = table.why_not_picked(call, device, preference)?;
    Some(BatchRefusal::Arms(Box::new(refusal)))
}
