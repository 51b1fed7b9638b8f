//! A route: one kernel variant, serving one format in one regime.

use cajeta_abi::{FormatId, Need, Regime};

use super::query::RouteCall;

/// The query type behind a route.
pub type QueryOf<R> = <<R as Route>::Call as RouteCall>::Query;

/// One row of a table. Implemented by whoever registers kernels: rows of a plugin here, anything with
/// regimes and formats elsewhere.
///
/// Both halves of admission answer with the row's own name for the gate that refused, or with nothing.
pub trait Route {
    /// What a launch of it is given.
    type Call: RouteCall;

    /// What a refusal, a record and the audit print. Unique within a table.
    fn name(&self) -> &str;

    /// Rows that are shapes of one design share a family; empty for none.
    fn family(&self) -> &str {
        ""
    }

    /// The regime it serves.
    fn regime(&self) -> Regime;

    /// The one format it serves.
    fn format(&self) -> FormatId;

    /// What the device must be able to do.
    fn needs(&self) -> &[Need];

    /// Order among rows that serve the same question: higher first. A declared default; measurement may
    /// decide otherwise within a family.
    fn priority(&self) -> i32;

    /// How many ops of the question it answers at once. More go first among equal priorities.
    fn covers(&self) -> usize {
        1
    }

    /// Whatever else tells one format from another, asked once [`Route::format`] is the query's: other
    /// ops than a fusion's, the format of a further weight. Nothing when the question is the row's.
    fn format_refusal(&self, query: &QueryOf<Self>) -> Option<&str> {
        let _ = query;
        None
    }

    /// The static half: nothing when the declared facts suit it, else its gate. Reads the query and the
    /// row alone, so that the answer is the same whenever and wherever it is asked.
    fn shape_refusal(&self, query: &QueryOf<Self>) -> Option<&str>;

    /// The run-time half: nothing when ready, else its gate.
    fn ready_refusal(&self, call: &Self::Call) -> Option<&str>;

    /// Launches it, or hands over what is launched. There is nothing left to choose.
    fn dispatch(&self, call: &Self::Call) -> <Self::Call as RouteCall>::Launch;

    /// Every gate of its own with the value it sees, for the line that says why an arm was refused.
    fn gates(&self, call: &Self::Call) -> Vec<GateValue> {
        let _ = call;
        Vec::new()
    }
}

impl<R: Route + ?Sized> Route for Box<R> {
    type Call = R::Call;

    fn name(&self) -> &str {
        (**self).name()
    }
    fn family(&self) -> &str {
        (**self).family()
    }
    fn regime(&self) -> Regime {
        (**self).regime()
    }
    fn format(&self) -> FormatId {
        (**self).format()
    }
    fn needs(&self) -> &[Need] {
        (**self).needs()
    }
    fn priority(&self) -> i32 {
        (**self).priority()
    }
    fn covers(&self) -> usize {
        (**self).covers()
    }
    fn format_refusal(&self, query: &QueryOf<Self>) -> Option<&str> {
        (**self).format_refusal(query)
    }
    fn shape_refusal(&self, query: &QueryOf<Self>) -> Option<&str> {
        (**self).shape_refusal(query)
    }
    fn ready_refusal(&self, call: &Self::Call) -> Option<&str> {
        (**self).ready_refusal(call)
    }
    fn dispatch(&self, call: &Self::Call) -> <Self::Call as RouteCall>::Launch {
        (**self).dispatch(call)
    }
    fn gates(&self, call: &Self::Call) -> Vec<GateValue> {
        (**self).gates(call)
    }
}

/// A gate with the value it saw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GateValue {
    /// The row's name for it.
    pub gate: String,
    /// What it looked at: `K=4096`, `yes`.
    pub value: String,
    /// Whether it admits.
    pub holds: bool,
}

impl std::fmt::Display for GateValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let GateValue { gate, value, holds } = self;
        write!(f, "{gate}: {value}{}", if *holds { "" } else { " (refuses)" })
    }
}
