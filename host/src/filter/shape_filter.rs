//! Candidates against the device, rule by rule.

use std::fmt;

use cajeta_abi::{DeviceFacts, Fact, Geometry, Problem};

use super::grain::{Grain, blocks};
use super::kernel::KernelFacts;
use super::rule::{Fill, Padding, Pruned, Rule};

/// One shape of a family at a problem.
#[derive(Clone, PartialEq, Debug)]
pub struct Candidate {
    /// Index of its row.
    pub row: usize,
    /// Its name.
    pub name: String,
    /// What its code and its launch take.
    pub kernel: KernelFacts,
    /// Its launch shape at the problem.
    pub geometry: Geometry,
    /// Rows and outputs of one block.
    pub grain: Grain,
}

/// A candidate the device can run, with what R5 and R6 recorded.
#[derive(Clone, PartialEq, Debug)]
pub struct Survivor {
    /// The candidate.
    pub candidate: Candidate,
    /// How much of the device its grid fills.
    pub fill: Option<Fill>,
    /// What it wastes at the problem.
    pub padding: Option<Padding>,
}

/// Candidates told apart; both lists keep the order they came in.
#[derive(Clone, PartialEq, Debug)]
pub struct Filtered {
    /// Those the device can run. Never empty.
    pub survivors: Vec<Survivor>,
    /// Those it cannot, each with its rule, need and limit.
    pub pruned: Vec<Pruned>,
}

/// No shape of a family can be launched on a device at a problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XpuLaunchError {
    /// The family.
    pub family: String,
    /// Rows, outputs, inputs.
    pub problem: [u64; 3],
    /// The device.
    pub device: String,
    /// Every candidate, with the rule it fell to.
    pub pruned: Vec<Pruned>,
    /// Members that have no launch shape at this problem, each with the backend's reason.
    pub refused: Vec<String>,
}

impl fmt::Display for XpuLaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.problem;
        write!(f, "no shape of {} can be launched at {m}x{n}x{k} on {}", self.family, self.device)?;
        if self.pruned.is_empty() && self.refused.is_empty() {
            return f.write_str(": the family has no member for this problem");
        }
        let pruned = self.pruned.iter().map(Pruned::to_string);
        for (index, reason) in pruned.chain(self.refused.iter().cloned()).enumerate() {
            write!(f, "{}{reason}", if index == 0 { ": " } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for XpuLaunchError {}

/// The rules over one device at one problem.
#[derive(Clone, Copy, Debug)]
pub struct ShapeFilter<'a> {
    facts: &'a DeviceFacts,
    problem: Problem,
}

impl<'a> ShapeFilter<'a> {
    /// A filter by facts read from the driver.
    pub fn new(facts: &'a DeviceFacts, problem: Problem) -> ShapeFilter<'a> {
        ShapeFilter { facts, problem }
    }

    /// Tells apart what the device can run and what it cannot.
    ///
    /// # Errors
    /// When it can run none, naming every candidate with its rule.
    pub fn apply(&self, family: &str, candidates: Vec<Candidate>) -> Result<Filtered, XpuLaunchError> {
        let mut filtered = Filtered { survivors: Vec::new(), pruned: Vec::new() };
        for candidate in candidates {
            match self.prune(&candidate) {
                Some(pruned) => filtered.pruned.push(pruned),
                None => filtered.survivors.push(Survivor {
                    fill: self.fill(&candidate),
                    padding: self.padding(&candidate),
                    candidate,
                }),
            }
        }
        if filtered.survivors.is_empty() {
            return Err(XpuLaunchError {
                family: family.to_owned(),
                problem: [self.problem.m, self.problem.n, self.problem.k],
                device: self.facts.name.to_string(),
                pruned: filtered.pruned,
                refused: Vec::new(),
            });
        }
        Ok(filtered)
    }

    /// The first rule a candidate falls to.
    fn prune(&self, candidate: &Candidate) -> Option<Pruned> {
        let kernel = &candidate.kernel;
        let over = |rule, what, need: Option<u64>, limit: Option<u64>| {
            let (need, limit) = (need?, limit?);
            (need > limit).then(|| Pruned {
                row: candidate.row,
                name: candidate.name.clone(),
                rule,
                what,
                need,
                limit,
            })
        };
        let fact = |fact| self.facts.get(fact);
        let block = [fact(Fact::SHARED_BLOCK_OPT_IN), fact(Fact::SHARED_BLOCK)].into_iter().flatten().max();
        over(Rule::R1, "bytes spilled by a thread", kernel.spill_bytes, Some(0))
            .or_else(|| over(Rule::R2, "registers of a block", self.registers(kernel), fact(Fact::REGISTERS)))
            .or_else(|| over(Rule::R3, "shared bytes of a block", Some(kernel.shared_bytes), block))
            .or_else(|| {
                let shared = fact(Fact::SHARED_MULTIPROCESSOR);
                let waves = kernel.max_waves.zip(kernel.wave_width.or(fact(Fact::WAVE)));
                let declared = waves.map(|(waves, width)| waves.saturating_mul(width));
                let feasible = &kernel.feasible_blocks;
                let launches = feasible.iter().any(|&block| u64::from(block) == kernel.threads);
                let largest = feasible.iter().max().filter(|_| !launches);
                // A block that is not among those that launch needs one more than there are.
                let among = largest.map(|_| kernel.threads);
                let largest =
                    largest.map(|&largest| u64::from(largest).min(kernel.threads.saturating_sub(1)));
                let threads = Some(kernel.threads);
                over(Rule::R4, "threads of a block", threads, fact(Fact::BLOCK_THREADS))
                    .or_else(|| over(Rule::R4, "threads of a block", threads, fact(Fact::THREADS)))
                    .or_else(|| over(Rule::R4, "threads of its declaration", threads, kernel.max_threads))
                    .or_else(|| over(Rule::R4, "threads of its declared waves", threads, declared))
                    .or_else(|| over(Rule::R4, "threads, not a block that launches", among, largest))
                    .or_else(|| over(Rule::R4, "resident shared bytes", Some(kernel.shared_bytes), shared))
                    .or_else(|| over(Rule::R4, "resident blocks", Some(1), self.resident(kernel)))
            })
            .or_else(|| {
                let together = candidate.geometry.coresident == 1;
                let grid = blocks(&candidate.geometry).filter(|_| together);
                over(Rule::R4, "blocks resident together", grid, self.resident_everywhere(kernel))
            })
    }

    /// Registers of a block, whole waves counted.
    fn registers(&self, kernel: &KernelFacts) -> Option<u64> {
        let wave = self.facts.get(Fact::WAVE).filter(|&wave| wave > 0).unwrap_or(1);
        let threads = kernel.threads.checked_next_multiple_of(wave)?;
        Some(threads.saturating_mul(kernel.registers?))
    }

    /// Blocks resident on one multiprocessor, as far as anybody knows.
    fn resident(&self, kernel: &KernelFacts) -> Option<u64> {
        let per = |limit: Fact, need: Option<u64>| self.facts.get(limit)?.checked_div(need?);
        let limits = [
            kernel.resident_groups,
            per(Fact::THREADS, Some(kernel.threads)),
            per(Fact::REGISTERS, self.registers(kernel)),
            per(Fact::SHARED_MULTIPROCESSOR, Some(kernel.shared_bytes)),
        ];
        limits.into_iter().flatten().min()
    }

    fn resident_everywhere(&self, kernel: &KernelFacts) -> Option<u64> {
        Some(self.facts.get(Fact::MULTIPROCESSORS)?.saturating_mul(self.resident(kernel)?))
    }

    /// R5. The device says how many blocks fill it; else every multiprocessor takes what is resident.
    fn fill(&self, candidate: &Candidate) -> Option<Fill> {
        let said = self.facts.get(Fact::DISPATCH_BLOCKS);
        let to_fill = said
            .or_else(|| self.resident_everywhere(&candidate.kernel))
            .or_else(|| self.facts.get(Fact::MULTIPROCESSORS))?;
        let blocks = blocks(&candidate.geometry).filter(|&blocks| blocks > 0)?;
        let split = u32::try_from(to_fill.div_ceil(blocks).max(1)).ok();
        let split = split.filter(|&split| split <= candidate.geometry.split_max.max(1));
        Some(Fill { blocks, to_fill, split })
    }

    /// R6. Absent where no side of the grid depends on the problem.
    fn padding(&self, candidate: &Candidate) -> Option<Padding> {
        let Grain { m, n } = candidate.grain;
        let padded = |size: u64, grain: Option<u64>| size.checked_next_multiple_of(grain.unwrap_or(1));
        m.or(n)?;
        let (padded_m, padded_n) = (padded(self.problem.m, m)?, padded(self.problem.n, n)?);
        let whole = padded_m as f64 * padded_n as f64;
        let asked = self.problem.m as f64 * self.problem.n as f64;
        let wasted = if whole > 0.0 { 100.0 * (1.0 - asked / whole) } else { 0.0 };
        Some(Padding { m: padded_m, n: padded_n, wasted_percent: wasted })
    }
}
