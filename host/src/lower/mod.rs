//! Lowers a plan for a device: weight layouts, cover, activation layouts, rows, and the launches that
//! come of it.
//!
//! [`declare`] answers which weights a segment wants resident if it had its choice; the engine makes
//! them so within its budget. [`lower`] then chooses among what is resident and places everything.

mod sequence;
mod pattern;
mod residents;
mod question;
mod cover;
mod each;
mod packs;
mod arena;
mod program;
mod explain;
mod announce;
mod batch;
mod survey;

use std::collections::BTreeSet;

use cajeta_abi::Regime;
use cajeta_model_arch::plan::Plan;
use thiserror::Error;

use crate::route::rows::RouteTables;
use crate::route::{NoRoute, Registry};
pub use announce::announce;
pub use batch::{Unbatched, batch_refusal};
use cover::{Choice, Cover, Edges};
pub use explain::{Arm, Explained, any_layer, explain};
pub use program::{Place, Placed, Program};
pub use residents::{
    WeightKey, bytes as weight_bytes, is_widened, relayout_problem, relayout_row, shapes as weight_shapes,
    widens,
};
pub use sequence::{Segment, SeqValue, Sequence, Sizes};
pub use survey::questions;

/// A segment that cannot be lowered.
#[derive(Debug, Error)]
pub enum LowerError {
    /// No row serves an op.
    #[error(transparent)]
    NoRoute(#[from] NoRoute),
    /// The backend refused to answer for a row it offered.
    #[error("the backend does not give {what}: {text}")]
    Backend {
        /// What was asked.
        what: String,
        /// The backend's sentence.
        text: String,
    },
    /// A value's size does not fit 64 bits.
    #[error("the size of {0} overflows")]
    TooLarge(String),
}

/// The regime of a segment by its rows: one row is a decode row, more are a batch.
pub fn regime(segment: Segment, sizes: &Sizes) -> Regime {
    let rows = match segment {
        Segment::Body | Segment::Step => sizes.rows,
        Segment::Tail | Segment::TailToken => sizes.out_rows,
    };
    match rows {
        0 | 1 => Regime::DECODE_ROW,
        // A step of several sequences gives each one row.
        _ if segment == Segment::Step => Regime::DECODE_COLS,
        _ => Regime::PREFILL_BATCH,
    }
}

/// The weights a segment would read if every layout the backend can make were resident.
pub fn declare(
    registry: &dyn Registry,
    plan: &Plan,
    segment: Segment,
    sizes: &Sizes,
    allowed: &dyn Fn(&WeightKey) -> bool,
) -> Result<BTreeSet<WeightKey>, LowerError> {
    let makeable =
        |key: &WeightKey| allowed(key) && (key.is_file() || relayout_row(registry, plan, key).is_some());
    let (_, choices) = cover(registry, plan, segment, sizes, &makeable)?;
    Ok(residents::wanted(registry, &choices))
}

/// The widened copies among what [`declare`] answers: those that one row reads together, in the order of
/// the plan.
pub fn declare_widened(
    registry: &dyn Registry,
    plan: &Plan,
    segment: Segment,
    sizes: &Sizes,
) -> Result<Vec<Vec<WeightKey>>, LowerError> {
    let makeable = |key: &WeightKey| key.is_file() || relayout_row(registry, plan, key).is_some();
    let (_, choices) = cover(registry, plan, segment, sizes, &makeable)?;
    Ok(residents::widened_groups(registry, plan, &choices))
}

/// Lowers a segment over the weights that are resident. What comes of it is not said: see [`announce()`].
pub fn lower(
    registry: &dyn Registry,
    plan: &Plan,
    segment: Segment,
    sizes: &Sizes,
    resident: &dyn Fn(&WeightKey) -> bool,
) -> Result<Program, LowerError> {
    let (sequence, choices) = cover(registry, plan, segment, sizes, resident)?;
    program::assemble(registry, plan, &sequence, sizes, &choices)
}

/// Covers a segment twice: first as if every pack were free, then over the packs that asks for, so
/// that a row fusing a pack with its producer is found.
fn cover(
    registry: &dyn Registry,
    plan: &Plan,
    segment: Segment,
    sizes: &Sizes,
    resident: &dyn Fn(&WeightKey) -> bool,
) -> Result<(Sequence, Vec<Choice>), NoRoute> {
    let plain = Sequence::new(plan, segment, sizes);
    let regime = regime(segment, sizes);
    let tables = RouteTables::of(registry);
    let of = |sequence: &Sequence, edges| {
        Cover { registry, tables: &tables, plan, sequence, regime, resident, edges }.choose()
    };
    let packed = packs::insert_packs(registry, &plain, &of(&plain, Edges::Packable)?);
    let exact = of(&packed, Edges::Exact)?;
    Ok((packed, exact))
}

#[cfg(test)]
mod tests;
