//! Scores given tokens: the model's prediction after each, teacher-forced.

use super::LlmEngine;
use super::error::EngineError;

/// Rows scored at once, so that their logits stay a modest buffer.
const SCORE_ROWS: usize = 64;

/// The prediction after one token.
#[derive(Clone, Debug)]
pub struct StepScore {
    /// The token.
    pub id: u32,
    /// Log-sum-exp of all logits: a logit minus this is a log-probability.
    pub lse: f64,
    /// The largest logits, largest first, the lower id first on ties.
    pub top: Vec<(u32, f32)>,
}

/// The scores of a text.
#[derive(Clone, Debug)]
pub struct Scored {
    /// The tokens.
    pub ids: Vec<u32>,
    /// Mean negative log-probability of each token but the first, in nats.
    pub mean_nll: f64,
    /// `exp(mean_nll)`.
    pub ppl: f64,
    /// One per token.
    pub steps: Vec<StepScore>,
}

impl LlmEngine {
    /// Scores `ids`, keeping the `top` largest logits of each step. `rows` is how many tokens are
    /// computed at once: 1 runs every token through the decode kernels, more through the batched ones.
    ///
    /// # Errors
    /// As [`LlmEngine::visit_logits`], and when a logit is not a number.
    pub fn score(&mut self, ids: &[u32], top: usize, rows: usize) -> Result<Scored, EngineError> {
        let mut steps = Vec::with_capacity(ids.len());
        let mut nll = 0.0;
        let mut broken = None;
        self.visit_logits(ids, rows, &mut |position, logits| {
            let Some(lse) = log_sum_exp(logits) else {
                broken.get_or_insert(position);
                return;
            };
            if let Some(&next) = ids.get(position + 1) {
                nll += lse - f64::from(logits[next as usize]);
            }
            steps.push(StepScore { id: ids[position], lse, top: largest(logits, top) });
        })?;
        if let Some(position) = broken {
            return Err(EngineError::NotANumber { position });
        }
        let mean_nll = nll / (ids.len() - 1).max(1) as f64;
        Ok(Scored { ids: ids.to_vec(), mean_nll, ppl: mean_nll.exp(), steps })
    }

    /// Shows the logits after each of `ids`, in order: position and one row of `n_vocab`.
    ///
    /// # Errors
    /// When there are no ids, one is unknown, they do not fit the context, or the device fails.
    pub fn visit_logits(
        &mut self,
        ids: &[u32],
        rows: usize,
        visit: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<(), EngineError> {
        self.check_tokens(ids)?;
        if ids.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if ids.len() > self.ctx() as usize {
            let (tokens, ctx, trained) = (ids.len(), self.ctx(), self.config().n_ctx_train);
            return Err(EngineError::PromptTooLong { tokens, ctx, trained });
        }
        self.forget_after(0)?;
        let n_vocab = self.config().n_vocab as usize;
        let rows = rows.clamp(1, SCORE_ROWS.min(self.chunk as usize));
        let mut logits = Vec::new();
        for (index, chunk) in ids.chunks(rows).enumerate() {
            let start = index * rows;
            let wanted: Vec<u32> = (0..chunk.len() as u32).collect();
            self.runner.prefill(0, chunk, start as u32, &wanted)?;
            self.runner.logits(chunk.len() as u32, chunk.len() as u32, &mut logits)?;
            self.cached.extend_from_slice(chunk);
            for (row, logits) in logits.chunks_exact(n_vocab).enumerate() {
                visit(start + row, logits);
            }
        }
        Ok(())
    }
}

/// Log-sum-exp; nothing when a logit is NaN or no logit is finite.
fn log_sum_exp(logits: &[f32]) -> Option<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if !max.is_finite() || logits.iter().any(|logit| logit.is_nan()) {
        return None;
    }
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - f64::from(max)).exp()).sum();
    Some(f64::from(max) + sum.ln())
}

fn largest(logits: &[f32], count: usize) -> Vec<(u32, f32)> {
    let better = |a: &u32, b: &u32| logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b));
    let count = count.min(logits.len());
    if count == 0 {
        return Vec::new();
    }
    let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
    if count < ids.len() {
        ids.select_nth_unstable_by(count - 1, better);
        ids.truncate(count);
    }
    ids.sort_unstable_by(better);
    ids.into_iter().map(|id| (id, logits[id as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_in_order_with_ties_by_id() {
        let logits = [1.0, 3.0, 2.0, 3.0, -1.0];
        assert_eq!(largest(&logits, 3), [(1, 3.0), (3, 3.0), (2, 2.0)]);
        assert_eq!(largest(&logits, 99).len(), 5);
        assert!(largest(&logits, 0).is_empty());
    }

    #[test]
    fn log_sum_exp_of_equal_logits_is_log_of_their_number() {
        let lse = log_sum_exp(&[2.0; 8]).expect("finite");
        assert!((lse - (2.0 + 8f64.ln())).abs() < 1e-12);
        assert!(log_sum_exp(&[0.0, f32::NAN]).is_none());
        assert!(log_sum_exp(&[f32::NEG_INFINITY; 2]).is_none());
    }
}
