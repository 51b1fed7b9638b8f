//! What a model wants resident on a device, and whether that fits: for a load, and for whoever asks
//! before one.

use std::collections::BTreeSet;

use cajeta_abi::Capability;
use cajeta_catalog::kv::BLOCK_POSITIONS;
use cajeta_model_arch::plan::Plan;

use super::error::{EngineError, MemoryNeed};
use super::registry::DeviceRegistry;
use super::runner::{bucket, chunk_layout, decode_layout};
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
        let mut asked: Vec<(Segment, Sizes)> = Vec::new();
        for chunk in rows_asked(registry, self.chunk) {
            // The steps are the same for all of them.
            let first = asked.is_empty();
            asked.extend(self.asked(chunk).into_iter().filter(|new| first || new.0 != Segment::Step));
        }
        asked
    }

    fn asked(&self, chunk: u32) -> Vec<(Segment, Sizes)> {
        let ctx = self.ctx.min(DEPTH);
        let mut asked = Extent { ctx, chunk: chunk.min(ctx), ..*self }.of_generating();
        // Launches are prepared for contexts of few lengths.
        asked.iter_mut().for_each(|(_, sizes)| sizes.context = bucket(ctx, self.ctx));
        asked
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
    /// Every layout that an engine of this size wishes for if that fits the device; the same without
    /// widened copies if those are too much; else the file's own bytes alone, whether those fit or not.
    /// Widened copies are made within the budget that nobody named.
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
        let wishes = extent.wishes();
        let mut first = of(Wish::of(registry, plan, &wishes, &|_| true)?);
        let narrow = |key: &WeightKey| !lower::is_widened(registry, plan, key);
        if !first.keys.iter().all(narrow)
            && let Ok(least) = Wish::of(registry, plan, &wishes, &narrow)
        {
            let budget = widen::budget(widen_budget, free, of(least).need.total());
            let (generating, given) = (extent.of_generating(), widen_budget.is_some());
            // Rows over widened weights may leave short chunks to others.
            let short = (Segment::Body, extent.prefill(extent.chunk.min(FEW_ROWS), 1));
            let wishes = [wishes.as_slice(), &[short]].concat();
            first = fitting(budget, &mut |budget| {
                let widened = Widened::choose(registry, plan, &generating, given, budget)?;
                let granted = |key: &WeightKey| narrow(key) || widened.granted.contains(key);
                let wish = Wish::of(registry, plan, &wishes, &granted)?;
                Ok(Affordable { widened: Some(widened), ..of(wish) })
            })?;
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

/// What `grant` makes of a budget for copies. Where that does not fit, because work over them takes more
/// room than work over others, what it makes of the rest of the budget; at last of none.
fn fitting(
    budget: u64,
    grant: &mut dyn FnMut(u64) -> Result<Affordable, EngineError>,
) -> Result<Affordable, EngineError> {
    let first = grant(budget)?;
    let over = first.need.total().saturating_sub(first.need.free);
    if over == 0 || budget == 0 {
        return Ok(first);
    }
    let rest = budget.saturating_sub(over);
    let second = grant(rest)?;
    if second.fits() || rest == 0 { Ok(second) } else { grant(0) }
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
        }
        // What one segment wants another may run on.
        for (segment, sizes) in wishes {
            let program = lower::lower(registry, plan, *segment, sizes, &|key| wish.keys.contains(key))?;
            let parts = [program.arena, program.scratch, program.semaphores];
            wish.work = wish.work.max(parts.into_iter().fold(0, u64::saturating_add));
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

    #[test]
    fn questions_are_about_the_contexts_that_launches_are_prepared_for() {
        for (ctx, asked) in [(100, 256), (256, 256), (1000, 1000), (1024, 1024), (8192, DEPTH)] {
            let extent = Extent { ctx, chunk: 64, seqs: 2 };
            let contexts = extent.asked(16).into_iter().map(|(_, sizes)| sizes.context);
            assert!(contexts.into_iter().all(|context| context == asked), "{ctx}");
        }
    }

    /// What takes so many bytes of a hundred.
    fn taking(weights: u64) -> Affordable {
        let need = MemoryNeed { weights, kv: 0, work: 0, ctx: 1, seqs: 1, device: "d".to_owned(), free: 100 };
        Affordable { keys: BTreeSet::new(), mapped: 0, need, widened: None }
    }

    #[test]
    fn copies_give_way_to_the_work_over_them_before_other_layouts_do() {
        // Others take 60. Copies are made of whole steps, and work over any takes `work` more.
        let granted = |budget: u64, step: u64, work: u64| {
            let mut asked = Vec::new();
            let made = fitting(budget, &mut |budget| {
                asked.push(budget);
                let copies = budget / step * step;
                Ok(taking(60 + copies + if copies > 0 { work } else { 0 }))
            });
            (asked, made.expect("made").need.weights)
        };
        assert_eq!(granted(25, 1, 10), (vec![25], 95), "they fit");
        assert_eq!(granted(40, 1, 10), (vec![40, 30], 100), "fewer of them fit");
        assert_eq!(granted(40, 1, 50), (vec![40, 0], 60), "none does, and all others");
        assert_eq!(granted(40, 15, 30), (vec![40, 20, 0], 60), "what is left of the budget is not enough");
        assert_eq!(granted(0, 1, 10), (vec![0], 60));
        let full = fitting(0, &mut |_| Ok(taking(200))).expect("made");
        assert!(!full.fits(), "nor do the others: the file's blocks are next");
    }
}
