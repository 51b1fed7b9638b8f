//! What a model wants resident on a device, and whether that fits: for a load, and for whoever asks
//! before one.

use std::collections::BTreeSet;

use cajeta_abi::Capability;
use cajeta_catalog::kv::BLOCK_POSITIONS;
use cajeta_model_arch::plan::Plan;

use super::error::{EngineError, MemoryNeed};
use super::registry::DeviceRegistry;
use super::runner::{chunk_layout, decode_layout};
use super::settle::{DEPTH, rows_asked};
use super::widen::{self, Widened};
use crate::kv::KvPool;
use crate::lower::{self, LowerError, Segment, Sizes, WeightKey};
use crate::route::Registry;

/// Rows of a chunk that is hardly one.
const FEW_ROWS: u32 = 2;

/// How large an engine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Positions of each sequence.
    pub ctx: u32,
    /// Most rows of a prefill chunk.
    pub chunk: u32,
    /// Most sequences decoded at once.
    pub seqs: u32,
}

impl Extent {
    /// Blocks of its cache.
    pub fn n_blocks(&self) -> u32 {
        self.seqs.saturating_mul(self.ctx.div_ceil(BLOCK_POSITIONS))
    }

    /// A prefill chunk of `rows`, of which `out_rows` get logits.
    pub fn prefill(&self, rows: u32, out_rows: u32) -> Sizes {
        let state = chunk_layout(self.chunk, self.ctx);
        Sizes { rows, out_rows, seqs: 1, context: self.ctx, state }
    }

    /// A decode step of `seqs` sequences.
    pub fn decode(&self, seqs: u32) -> Sizes {
        let state = decode_layout(self.seqs, self.ctx);
        Sizes { rows: seqs, out_rows: seqs, seqs, context: self.ctx, state }
    }

    /// What generating and scoring will run. A step of few sequences may want other layouts than one of
    /// many, so the numbers between one and the most are wished for by powers of two.
    pub fn wishes(&self) -> Vec<(Segment, Sizes)> {
        let mut wishes = vec![
            (Segment::Body, self.prefill(self.chunk, 1)),
            (Segment::TailToken, self.prefill(self.chunk, 1)),
            (Segment::Tail, self.prefill(self.chunk, self.chunk)),
        ];
        let counts = std::iter::successors(Some(1u32), |count| count.checked_mul(2));
        let counts = counts.take_while(|&count| count < self.seqs).chain([self.seqs]);
        wishes.extend(counts.map(|count| (Segment::Step, self.decode(count))));
        wishes
    }

    /// What a load asks about the kernels of a device: all of [`Extent::wishes`] but the logits of many
    /// rows, which scoring alone computes and whose operands are the largest there are. Steps come first,
    /// of one sequence and of all, in case time runs out.
    pub fn questions(&self, registry: &dyn Registry) -> Vec<(Segment, Sizes)> {
        let ctx = self.ctx.min(DEPTH);
        Extent { ctx, chunk: rows_asked(registry, self.chunk).min(ctx), ..*self }.of_generating()
    }

    fn of_generating(&self) -> Vec<(Segment, Sizes)> {
        let mut asked = self.wishes();
        asked.retain(|(segment, _)| *segment != Segment::Tail);
        let rank = |(segment, sizes): &(Segment, Sizes)| match (segment, sizes.seqs) {
            (Segment::Step, 1) => 0,
            (Segment::Step, seqs) if seqs == self.seqs => 1,
            (Segment::Step, _) => 2,
            _ => 3,
        };
        asked.sort_by_key(rank);
        asked
    }
}

/// The weights to make resident, and the memory that takes.
#[derive(Clone, Debug)]
pub struct Affordable {
    /// The weights.
    pub keys: BTreeSet<WeightKey>,
    /// Bytes of weights that are read where the file is mapped.
    pub mapped: u64,
    /// Device memory, and how much there is.
    pub need: MemoryNeed,
    /// The widened copies among the weights, and those there is no budget for; nothing where none is
    /// wanted, or nothing else serves.
    pub widened: Option<Widened>,
}

impl Affordable {
    /// Every layout that an engine of this size wishes for if that fits the device, else the file's own
    /// bytes alone, whether those fit or not. Widened copies are made within the budget that nobody named.
    ///
    /// # Errors
    /// When no row serves an op, or the device does not answer.
    pub fn of(registry: &DeviceRegistry, plan: &Plan, extent: &Extent) -> Result<Affordable, EngineError> {
        Affordable::within(registry, plan, extent, None)
    }

    /// As [`Affordable::of`], with a budget for widened copies in bytes.
    ///
    /// # Errors
    /// As [`Affordable::of`].
    pub fn within(
        registry: &DeviceRegistry,
        plan: &Plan,
        extent: &Extent,
        widen_budget: Option<u64>,
    ) -> Result<Affordable, EngineError> {
        let device = registry.device();
        let free = device.mem_info()?.free;
        let of = |wish: Wish| {
            let need = MemoryNeed {
                weights: wish.weights,
                kv: KvPool::bytes(&plan.kv, extent.n_blocks()),
                work: wish.work,
                ctx: extent.ctx,
                seqs: extent.seqs,
                device: device.facts().name.to_string(),
                free,
            };
            Affordable { keys: wish.keys, mapped: wish.mapped, need, widened: None }
        };
        let mut wishes = extent.wishes();
        let mut first = of(Wish::of(registry, plan, &wishes, &|_| true)?);
        let narrow = |key: &WeightKey| !lower::is_widened(registry, plan, key);
        if !first.keys.iter().all(narrow)
            && let Ok(least) = Wish::of(registry, plan, &wishes, &narrow)
        {
            let needed = of(least).need.total();
            let budget = widen::budget(widen_budget, free, needed);
            let generating = extent.of_generating();
            let given = widen_budget.is_some();
            let widened = Widened::choose(registry, plan, &generating, given, budget)?;
            // Rows over widened weights may leave short chunks to others.
            wishes.push((Segment::Body, extent.prefill(extent.chunk.min(FEW_ROWS), 1)));
            let granted = |key: &WeightKey| narrow(key) || widened.granted.contains(key);
            first = of(Wish::of(registry, plan, &wishes, &granted)?);
            first.widened = Some(widened);
        }
        if first.fits() {
            return Ok(first);
        }
        // Where file blocks alone cannot serve, the first wish is what a refusal is about.
        Ok(Wish::of(registry, plan, &wishes, &WeightKey::is_file).map_or(first, of))
    }

    /// Whether it fits.
    pub fn fits(&self) -> bool {
        self.need.total() <= self.need.free
    }

    /// Itself, where it fits.
    ///
    /// # Errors
    /// Where it does not, with what is needed and what to do.
    pub fn or_refused(self) -> Result<Affordable, EngineError> {
        if self.fits() {
            return Ok(self);
        }
        Err(EngineError::OutOfMemory { remedy: self.need.remedy(), need: Box::new(self.need) })
    }
}

/// The weights some segments want, and what they and the work take on the device.
struct Wish {
    keys: BTreeSet<WeightKey>,
    mapped: u64,
    weights: u64,
    work: u64,
}

impl Wish {
    fn of(
        registry: &DeviceRegistry,
        plan: &Plan,
        wishes: &[(Segment, Sizes)],
        allowed: &dyn Fn(&WeightKey) -> bool,
    ) -> Result<Wish, LowerError> {
        let mut wish = Wish { keys: BTreeSet::new(), mapped: 0, weights: 0, work: 0 };
        for (segment, sizes) in wishes {
            wish.keys.extend(lower::declare(registry, plan, *segment, sizes, allowed)?);
            let program = lower::lower(registry, plan, *segment, sizes, &|key| wish.keys.contains(key))?;
            wish.work = wish.work.max(program.arena + program.scratch + program.semaphores);
        }
        let in_place = registry.supports(Capability::IMPORT);
        for key in &wish.keys {
            let bytes = lower::weight_bytes(registry, plan, key)
                .map_err(|text| LowerError::Backend { what: "the size of a weight".into(), text })?;
            let home = if in_place && key.is_file() { &mut wish.mapped } else { &mut wish.weights };
            *home = home.saturating_add(bytes);
        }
        Ok(wish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_wished_for_by_powers_of_two_and_asked_about_first() {
        let extent = Extent { ctx: 100, chunk: 64, seqs: 6 };
        assert_eq!(extent.n_blocks(), 6 * 7);
        let steps = |wishes: &[(Segment, Sizes)]| {
            let steps = wishes.iter().filter(|(segment, _)| *segment == Segment::Step);
            steps.map(|(_, sizes)| sizes.seqs).collect::<Vec<_>>()
        };
        assert_eq!(steps(&extent.wishes()), [1, 2, 4, 6]);
        let asked = extent.of_generating();
        assert_eq!(steps(&asked[..4]), [1, 6, 2, 4], "the ends before what is between");
        assert!(asked.iter().all(|(segment, _)| *segment != Segment::Tail));
        assert_eq!(asked.len() + 1, extent.wishes().len());
        assert_eq!(steps(&Extent { seqs: 1, ..extent }.wishes()), [1]);
    }
}
