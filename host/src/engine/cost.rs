//! What a list moves: bytes of weights, cache and activations, launch by launch.

use cajeta_abi::Row;
use cajeta_catalog::op::Op;

use super::error::EngineError;
use super::runner::Runner;
use crate::lower::{Place, Placed, Segment, Sizes, WeightKey};
use crate::route::Registry;

/// One launch and the bytes its arguments make it move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaunchCost {
    /// Index of the row in the backend's list.
    pub row: usize,
    /// What it computes: the op and the value written.
    pub what: String,
    /// Bytes of weights, as they are resident.
    pub weights: u64,
    /// Bytes of keys and values read or appended.
    pub cache: u64,
    /// Bytes of activations read and written.
    pub activations: u64,
}

impl LaunchCost {
    /// All bytes.
    pub fn bytes(&self) -> u64 {
        self.weights.saturating_add(self.cache).saturating_add(self.activations)
    }
}

impl Runner {
    /// The cost of each launch of a segment, in list order. `lengths` are the positions of each
    /// sequence once the step's rows are in the cache.
    ///
    /// # Errors
    /// When no kernel serves the segment.
    pub fn costs(
        &self,
        segment: Segment,
        sizes: &Sizes,
        lengths: &[u32],
    ) -> Result<Vec<LaunchCost>, EngineError> {
        let program = self.lowered(segment, sizes)?;
        Ok(program.launches.iter().map(|launch| self.cost(launch, sizes, lengths)).collect())
    }

    fn cost(&self, launch: &Placed, sizes: &Sizes, lengths: &[u32]) -> LaunchCost {
        let rows = self.registry.rows();
        let has = |op: Op| rows.get(launch.row).is_some_and(|row| computes(row, op));
        let (embeds, attends, appends) = (has(Op::Embed), has(Op::Attention), has(Op::RopeAppend));
        let mut cost =
            LaunchCost { row: launch.row, what: launch.what.clone(), weights: 0, cache: 0, activations: 0 };
        for place in &launch.args {
            match place {
                Place::Weight(key) if embeds => cost.weights += self.table_rows(key, sizes.rows),
                Place::Weight(key) => cost.weights += self.residency.span(key).map_or(0, |span| span.len()),
                Place::Arena(range) | Place::Hidden(range) => cost.activations += range.end - range.start,
                Place::Plane(layer, _) => {
                    let read = if attends { self.positions_read(*layer, lengths) } else { 0 };
                    let appended = if appends { u64::from(sizes.rows) } else { 0 };
                    cost.cache += self.position_bytes(*layer).saturating_mul(read + appended);
                }
                Place::State(_) | Place::Absent => {}
            }
        }
        cost
    }

    /// Bytes of `rows` rows of a table.
    fn table_rows(&self, key: &WeightKey, rows: u32) -> u64 {
        let in_table = key.tensors.iter().map(|id| self.plan.tensor(*id).rows).max().unwrap_or(1).max(1);
        self.residency.span(key).map_or(0, |span| span.len() / in_table).saturating_mul(u64::from(rows))
    }

    /// Positions of a layer's cache that the sequences of a step read.
    fn positions_read(&self, layer: u32, lengths: &[u32]) -> u64 {
        let window = self.plan.kv.get(layer as usize).map_or(0, |shape| shape.window);
        let seen = |&length: &u32| if window == 0 { length } else { length.min(window) };
        lengths.iter().map(seen).map(u64::from).sum()
    }

    /// Bytes of one position in one of a layer's planes: f16.
    fn position_bytes(&self, layer: u32) -> u64 {
        let heads = |shape: &cajeta_model_arch::plan::KvShape| {
            u64::from(shape.n_head_kv).saturating_mul(u64::from(shape.head_dim)).saturating_mul(2)
        };
        self.plan.kv.get(layer as usize).map_or(0, heads)
    }
}

fn computes(row: &Row, op: Op) -> bool {
    row.steps.iter().any(|step| Op::from_id(step.op) == Some(op))
}
