//! Where launches are timed: in the place a model's step has them, or over operands of their own.

use std::collections::BTreeSet;

use cajeta_abi::Problem;
use cajeta_plugin_host::{BufferSpan, LaunchSpec};

use super::answers::Answers;
use super::error::TuneError;
use super::timer::BRACKET_NS;

/// The arguments of one launch.
pub type ArgSet = Vec<Option<BufferSpan>>;

/// Launches that do a segment's work, for each of the segments alike.
pub type Segments = Vec<Vec<LaunchSpec>>;

/// A model's launches, as measuring finds them.
pub trait Site {
    /// Arguments of the launches of `row` that ask about this problem, layer after layer; none where
    /// nothing is in place.
    ///
    /// # Errors
    /// Whatever keeps them from being found.
    fn sets(&mut self, row: usize, problem: &Problem, scalars: &[u8]) -> Result<Vec<ArgSet>, TuneError>;

    /// What serves the segments that the fusion `row` would serve at this problem, under each of some
    /// answers, layer after layer; or the whole step as one segment. Nothing where the answers do not
    /// divide a step alike.
    ///
    /// # Errors
    /// Whatever keeps them from being found.
    fn forms(
        &mut self,
        row: usize,
        problem: &Problem,
        scalars: &[u8],
        answers: &[Answers],
    ) -> Result<Option<Vec<Segments>>, TuneError>;

    /// Bytes of weights that a step reads. More than a cache holds, and none of them is in it when the
    /// next step comes.
    fn step_bytes(&self) -> u64;
}

/// No model: a bench makes every operand.
#[derive(Clone, Copy, Default, Debug)]
pub struct Nowhere;

impl Site for Nowhere {
    fn sets(&mut self, _: usize, _: &Problem, _: &[u8]) -> Result<Vec<ArgSet>, TuneError> {
        Ok(Vec::new())
    }

    fn forms(
        &mut self,
        _: usize,
        _: &Problem,
        _: &[u8],
        _: &[Answers],
    ) -> Result<Option<Vec<Segments>>, TuneError> {
        Ok(None)
    }

    fn step_bytes(&self) -> u64 {
        0
    }
}

/// How a bracket over different operands meets memory as a step does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Footing {
    /// Repetitions after which it would find operands that it used before.
    pub(super) most: u32,
    /// Whether caches are swept before it.
    pub(super) sweep: bool,
    /// Nanoseconds it takes at least.
    pub(super) bracket_ns: f64,
}

impl Footing {
    /// Over operands that were made to be timed.
    pub(super) const NONE: Footing = Footing { most: u32::MAX, sweep: false, bracket_ns: BRACKET_NS };

    /// The footing of a bracket over `sets` sets of operands, of so many bytes that differ, in a model
    /// whose step reads `step_bytes`, on a device with so large a last cache.
    pub(super) fn of(sets: usize, distinct: u64, step_bytes: u64, cache: u64) -> Footing {
        let far = cache.saturating_mul(2);
        // A model that fits the cache is found there by every step, and operands past it by none.
        if step_bytes <= cache || distinct >= far {
            return Footing::NONE;
        }
        Footing { most: u32::try_from(sets).unwrap_or(u32::MAX), sweep: true, ..Footing::NONE }
    }
}

/// Bytes of spans, each counted once.
pub(super) fn distinct_bytes<'a>(spans: impl Iterator<Item = &'a BufferSpan>) -> u64 {
    let mut seen = BTreeSet::new();
    let new = spans.filter(|span| seen.insert((span.buffer().handle().0, span.offset(), span.len())));
    new.map(BufferSpan::len).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bracket_meets_memory_as_a_step_does() {
        let footing = |sets, distinct, step| Footing::of(sets, distinct, step, 50);
        let rests = Footing::NONE;
        assert_eq!(footing(4, 1, 40), rests, "the whole model stays in the cache");
        assert_eq!(footing(4, 100, 4000), rests, "going round is enough");
        assert_eq!(footing(4, 99, 4000), Footing { most: 4, sweep: true, ..rests });
        assert_eq!(Footing::of(1, 9, 10, 0), rests, "a device that names no cache");
    }
}
