//! The tail of a step: argmax, a draw, and the step state's next position.

use cajeta_plugin_api::abi::Problem;
use cajeta_plugin_api::catalog::op::Op;
use cajeta_plugin_api::catalog::oracle::{self, OracleBuf, sample};
use cajeta_plugin_api::catalog::state::SampleParams;

use super::operands::Memory;
use super::{Crew, Task};
use crate::kernel::table::Kernels;

/// `argmax` (without parameters) or `sample` of `m` rows of `n` logits.
pub(crate) struct PickTask {
    pub(crate) kernels: &'static Kernels,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) logits: Memory,
    pub(crate) params: Option<Memory>,
    pub(crate) out: Memory,
}

impl Task for PickTask {
    fn solo(&self, _phase: usize) -> bool {
        self.m == 1
    }

    unsafe fn run(&self, _phase: usize, crew: &mut Crew<'_>) {
        while let Some(rows) = crew.claim(1, self.m) {
            for row in rows {
                // SAFETY: the operands hold m rows of logits, parameters and
                // outputs; parameters may lie at any address.
                unsafe {
                    let logits = self.logits.f32().add(row * self.n);
                    let params = self
                        .params
                        .map(|params| params.bytes().cast::<SampleParams>().add(row).read_unaligned());
                    *self.out.u32().add(row) = match params {
                        Some(params) if params.temperature > 0.0 => {
                            draw(std::slice::from_raw_parts(logits, self.n), &params)
                        }
                        _ => (self.kernels.argmax)(logits, self.n),
                    };
                }
            }
        }
    }
}

/// Logits a block of the first sieve holds.
const SIEVE: usize = 64;

/// Draws from a row: the catalog's own draw over the logits that can matter.
fn draw(logits: &[f32], params: &SampleParams) -> u32 {
    // The draw looks at the `keep` largest logits. The smallest of the
    // `keep` largest block maxima is a floor under them: at least `keep`
    // logits reach it. Ties stay in, so the order of candidates is kept.
    let keep = match params.top_k {
        0 => SampleParams::CANDIDATES,
        k => k.min(SampleParams::CANDIDATES),
    } as usize;
    let mut tops: Vec<f32> =
        logits.chunks(SIEVE).map(|block| block.iter().copied().fold(f32::NEG_INFINITY, f32::max)).collect();
    if tops.len() <= keep {
        return sample::choose(logits, params);
    }
    let (_, &mut floor, _) = tops.select_nth_unstable_by(keep, |a, b| b.total_cmp(a));
    let kept: Vec<(u32, f32)> =
        (0..).zip(logits.iter().copied()).filter(|(_, logit)| *logit >= floor).collect();
    let values: Vec<f32> = kept.iter().map(|&(_, logit)| logit).collect();
    let drawn = sample::choose(&values, params);
    kept.get(drawn as usize).map_or(u32::MAX, |&(token, _)| token)
}

/// `advance` of `m` sequences.
pub(crate) struct AdvanceTask {
    pub(crate) problem: Problem,
    pub(crate) scalars: Vec<u8>,
    pub(crate) state: Memory,
}

impl Task for AdvanceTask {
    fn solo(&self, _phase: usize) -> bool {
        true
    }

    unsafe fn run(&self, _phase: usize, crew: &mut Crew<'_>) {
        if crew.claim(1, 1).is_none() {
            return;
        }
        // SAFETY: the state's whole span, which nothing else touches now.
        let state = unsafe { std::slice::from_raw_parts_mut(self.state.bytes(), self.state.len() as usize) };
        // A handful of words per sequence: the catalog's own definition is fast enough.
        let done = oracle::run(Op::Advance, 0, &self.problem, &self.scalars, &mut [OracleBuf::Out(state)]);
        if let Err(error) = done {
            crew.refusal.say(|| error.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sieve_does_not_change_a_draw() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / 16_777_216.0
        };
        let mut logits: Vec<f32> = (0..40_000).map(|_| (next() * 64.0).floor() / 4.0).collect();
        logits[5] = f32::NAN;
        for (top_k, top_p) in [(0, 1.0), (40, 0.9), (1, 1.0), (256, 0.5)] {
            for counter in 0..50 {
                let params = SampleParams { temperature: 0.8, top_k, top_p, counter, ..SampleParams::GREEDY };
                assert_eq!(draw(&logits, &params), sample::choose(&logits, &params));
            }
        }
    }
}
