//! Generates after several prompts at once: each is prefilled in its own slot, then all decode in the
//! same steps. All begin together and the last to end ends the steps.

use super::LlmEngine;
use super::error::EngineError;
use super::options::Sampling;
use super::state::DecodeRow;

impl LlmEngine {
    /// Generates up to `max_tokens` tokens after each prompt; one that ends early has its
    /// end-of-generation token last. Draws are those [`LlmEngine::generate`] makes for the same prompt
    /// and sampling, up to the rounding of kernels for one row and for many.
    ///
    /// # Errors
    /// When there are more prompts than [`EngineOptions::max_seqs`](super::EngineOptions::max_seqs), a
    /// prompt is empty, holds an unknown token or does not fit the context with its answer, a sampling
    /// value is out of range, the device fails, or logits are not numbers.
    pub fn generate_together(
        &mut self,
        prompts: &[&[u32]],
        max_tokens: usize,
        sampling: &Sampling,
    ) -> Result<Vec<Vec<u32>>, EngineError> {
        let mut sampling = sampling.params()?;
        self.check_prompts(prompts, max_tokens)?;
        self.forget_all()?;
        let mut answers = vec![Vec::new(); prompts.len()];
        if max_tokens == 0 || prompts.is_empty() {
            return Ok(answers);
        }
        let mut rows = Vec::with_capacity(prompts.len());
        for (slot, prompt) in prompts.iter().enumerate() {
            // The draws of one prompt leave their count behind.
            self.runner.set_sampling(&sampling)?;
            let last = self.prefill_chunks(slot, prompt, 0)?;
            let position = prompt.len() as u32;
            let token = self.runner.draw_after_prefill(last, position)?;
            answers[slot].push(token);
            rows.push(DecodeRow { token, position, sampling });
        }
        // The first tokens were the first draws.
        sampling.counter = sampling.counter.wrapping_add(1);
        rows.iter_mut().for_each(|row| row.sampling = sampling);
        self.runner.begin_decode(&rows)?;
        let mut unsubmitted = max_tokens - 1;
        while answers.iter().any(|answer| !self.has_ended(answer)) {
            unsubmitted -= self.keep_steps_under_way(unsubmitted)?;
            let Some(step) = self.runner.collect_step()? else { break };
            for (answer, token) in answers.iter_mut().zip(step.tokens) {
                if !self.has_ended(answer) {
                    answer.push(token);
                }
            }
        }
        Ok(answers)
    }

    fn has_ended(&self, answer: &[u32]) -> bool {
        answer.last().is_some_and(|&id| self.model.tokenizer.is_end(id))
    }

    /// Queues steps until as many are under way as keep the device busy, at most `wanted`; answers how
    /// many it queued.
    pub(super) fn keep_steps_under_way(&mut self, wanted: usize) -> Result<usize, EngineError> {
        let enough = if self.runner.pipelined { 2 } else { 1 };
        let missing = wanted.min(usize::saturating_sub(enough, self.runner.steps_under_way()));
        for _ in 0..missing {
            self.runner.submit_step()?;
        }
        Ok(missing)
    }

    /// Computes tokens of a slot's sequence in chunks; answers the rows of the last.
    pub(super) fn prefill_chunks(
        &mut self,
        slot: usize,
        tokens: &[u32],
        position: u32,
    ) -> Result<u32, EngineError> {
        let mut position = position;
        let mut rows = 0;
        for chunk in tokens.chunks(self.chunk as usize) {
            rows = chunk.len() as u32;
            self.runner.prefill(slot, chunk, position, &[rows - 1])?;
            position += rows;
        }
        Ok(rows)
    }

    /// Forgets what every slot has cached.
    pub(super) fn forget_all(&mut self) -> Result<(), EngineError> {
        self.forget_after(0)?;
        for slot in 0..self.max_seqs() as usize {
            self.runner.truncate(slot, 0);
        }
        Ok(())
    }

    fn check_prompts(&self, prompts: &[&[u32]], max_tokens: usize) -> Result<(), EngineError> {
        let limit = self.max_seqs();
        if prompts.len() > limit as usize {
            return Err(EngineError::Sequences { asked: prompts.len(), limit });
        }
        for prompt in prompts {
            self.check_tokens(prompt)?;
            if prompt.is_empty() {
                return Err(EngineError::EmptyPrompt);
            }
            let tokens = prompt.len().saturating_add(max_tokens.saturating_sub(1));
            if tokens > self.ctx() as usize {
                let (ctx, trained) = (self.ctx(), self.config().n_ctx_train);
                return Err(EngineError::PromptTooLong { tokens, ctx, trained });
            }
        }
        Ok(())
    }
}
