//! Rows over widened weights that serve before those over blocks.

use crate::route::rows::{RowCall, RowRoute};
use crate::route::{Origin, Route, RouteCall, RouteQuery};

/// A row over widened weights that is faster than the one over blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widened {
    pub(super) route: RowRoute<'static>,
    pub(super) origin: Origin,
    /// Fewest rows of activations it serves.
    pub(super) least: u64,
}

impl Widened {
    /// Whether it serves a call: all its weights are there as it reads them.
    pub(super) fn serves(&self, call: &RowCall<'_>) -> bool {
        let (route, query) = (self.route, call.query());
        let main = query.steps().get(route.row().problem_step as usize);
        main.is_some_and(|step| step.problem.m >= self.least)
            && route.format() == query.format()
            && route.regime() == query.regime_of(route.covers())
            && route.format_refusal(query).is_none()
            && route.shape_refusal(query).is_none()
            && route.ready_refusal(call).is_none()
    }
}
