//! A question that owns what it is about.

use cajeta_abi::Regime;
use cajeta_catalog::op::Op;

use crate::route::rows::{QueryStep, RowQuery};

/// What kind of shape a question has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Sizes of a common model.
    Usual,
    /// Sizes that divide by little, as some models have.
    Odd,
    /// Sizes that hold no whole block and no common head: a row with gates should not take them.
    Broken,
}

impl Shape {
    /// Every kind.
    pub const ALL: [Shape; 3] = [Shape::Usual, Shape::Odd, Shape::Broken];
}

/// A question of an audit.
#[derive(Clone, PartialEq, Debug)]
pub struct Question {
    /// The regime of every op but those of the token tail.
    pub regime: Regime,
    /// Its kind of shape.
    pub shape: Shape,
    /// The op asked for and those that follow it.
    pub steps: Vec<QueryStep>,
}

impl Question {
    /// The question as rows are held against it.
    pub fn query(&self) -> RowQuery<'_> {
        RowQuery::new(self.regime, &self.steps)
    }

    /// The op asked for.
    pub fn op(&self) -> Option<Op> {
        self.query().op()
    }
}
