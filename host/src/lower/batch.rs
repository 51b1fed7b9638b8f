//! Whether every projection of a model is computed for several rows at once, and which one is not.

use std::fmt;

use cajeta_catalog::op::Op;
use cajeta_model_arch::plan::Plan;

use super::cover::{Cover, Edges, Resident};
use super::each::Each;
use super::sequence::Sequence;
use super::{Segment, Sizes, WeightKey, regime};
use crate::route::Registry;
use crate::route::rows::{self, BatchRefusal, OnDevice, RouteTables, RowCall};

/// A projection that is computed row by row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unbatched {
    /// The projection: `matmul blk.0.attn_q`.
    pub what: String,
    /// The gate that refused.
    pub refusal: BatchRefusal,
}

impl fmt::Display for Unbatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.refusal)
    }
}

/// The first projection of a segment that no row serves at these sizes, or that was measured to be faster
/// sequence by sequence; nothing when each is computed at once.
pub fn batch_refusal(
    registry: &dyn Registry,
    plan: &Plan,
    segment: Segment,
    sizes: &Sizes,
    resident: &dyn Fn(&WeightKey) -> bool,
) -> Option<Unbatched> {
    let sequence = Sequence::new(plan, segment, sizes);
    let (tables, regime) = (RouteTables::of(registry), regime(segment, sizes));
    let edges = Edges::Packable;
    let cover = Cover { registry, tables: &tables, plan, sequence: &sequence, regime, resident, edges };
    let (questions, ready, device) =
        (cover.questions(), Resident::new(registry, plan, resident), OnDevice(registry));
    let each = Each::of(&cover);
    let projections = sequence.ops.iter().enumerate().filter(|(_, op)| op.op == Op::Matmul);
    projections.into_iter().find_map(|(at, op)| {
        let call = RowCall { query: questions.at(at), ready: &ready };
        let table = tables.table(Op::Matmul);
        let alone = || each.as_ref()?.choice(&cover, at).map(|_| BatchRefusal::ColsPay);
        let refusal = rows::batch_refusal(table, &call, &device, registry.preference()).or_else(alone)?;
        Some(Unbatched { what: sequence.describe(op), refusal })
    })
}
