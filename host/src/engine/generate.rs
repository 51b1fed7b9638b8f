//! Generates: prefill of what the cache lacks, then one decode step per token.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use cajeta_catalog::state::SampleParams;

use super::LlmEngine;
use super::error::EngineError;
use super::options::Sampling;
use super::state::DecodeRow;

/// Why a generation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FinishReason {
    /// The model ended its answer.
    Stop,
    /// The token limit, or the context, was reached.
    Length,
    /// The caller ended it.
    Cancelled,
}

impl FinishReason {
    /// The field's name for it.
    pub fn name(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::Cancelled => "cancelled",
        }
    }
}

/// How long a generation's parts took.
#[derive(Clone, Copy, Default, Debug)]
pub struct Timings {
    /// Prompt tokens computed now (the rest were in the cache).
    pub prefill_tokens: usize,
    /// From the call to the first token.
    pub prefill: Duration,
    /// Tokens decoded after the first.
    pub decode_tokens: usize,
    /// From the first token to the last.
    pub decode: Duration,
}

impl Timings {
    /// Prompt tokens per second.
    pub fn prefill_rate(&self) -> f64 {
        rate(self.prefill_tokens, self.prefill)
    }

    /// Decoded tokens per second.
    pub fn decode_rate(&self) -> f64 {
        rate(self.decode_tokens, self.decode)
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { tokens as f64 / time.as_secs_f64() }
}

/// What a generation produced.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Generated tokens; an end-of-generation token that ended it comes last.
    pub ids: Vec<u32>,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// How long it took.
    pub timings: Timings,
}

impl LlmEngine {
    /// Generates up to `max_tokens` tokens after a prompt. `on_token` sees each token as it comes
    /// (end-of-generation tokens excepted) and may end it; it is also asked, with no token, between
    /// prefill chunks.
    ///
    /// # Errors
    /// When the prompt is empty, holds an unknown token or does not fit the context, a sampling value
    /// is out of range, the device fails, or the logits are not numbers.
    pub fn generate(
        &mut self,
        prompt: &[u32],
        max_tokens: Option<usize>,
        sampling: &Sampling,
        on_token: &mut dyn FnMut(Option<u32>) -> ControlFlow<()>,
    ) -> Result<Generation, EngineError> {
        let params = sampling.params()?;
        self.check_tokens(prompt)?;
        let ctx = self.ctx();
        if prompt.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if prompt.len() > ctx as usize {
            let trained = self.config().n_ctx_train;
            return Err(EngineError::PromptTooLong { tokens: prompt.len(), ctx, trained });
        }
        let room = ctx as usize - prompt.len() + 1;
        let limit = max_tokens.unwrap_or(usize::MAX).min(room);
        let mut out =
            Generation { ids: Vec::new(), finish_reason: FinishReason::Length, timings: Timings::default() };
        if limit == 0 {
            return Ok(out);
        }
        let started = Instant::now();
        self.runner.set_sampling(&params)?;
        let Some(first) = self.prefill_prompt(prompt, &mut out, on_token)? else {
            out.finish_reason = FinishReason::Cancelled;
            out.timings.prefill = started.elapsed();
            return Ok(out);
        };
        out.timings.prefill = started.elapsed();
        let started = Instant::now();
        self.decode_from(first, params, limit, &mut out, on_token)?;
        out.timings.decode = started.elapsed();
        out.timings.decode_tokens = out.ids.len().saturating_sub(1);
        Ok(out)
    }

    /// Computes what the cache lacks of a prompt and draws the first token; nothing when cancelled.
    fn prefill_prompt(
        &mut self,
        prompt: &[u32],
        out: &mut Generation,
        on_token: &mut dyn FnMut(Option<u32>) -> ControlFlow<()>,
    ) -> Result<Option<u32>, EngineError> {
        let same = self.cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        // The last prompt token is computed again: its logits are wanted.
        let mut done = same.min(prompt.len() - 1);
        self.forget_after(done)?;
        let chunk = self.chunk as usize;
        loop {
            let rows = &prompt[done..prompt.len().min(done + chunk)];
            let last_row = [rows.len() as u32 - 1];
            self.runner.prefill(0, rows, done as u32, &last_row)?;
            self.cached.extend_from_slice(rows);
            done += rows.len();
            out.timings.prefill_tokens += rows.len();
            if done == prompt.len() {
                return self.runner.draw_after_prefill(rows.len() as u32, done as u32).map(Some);
            }
            if on_token(None).is_break() {
                return Ok(None);
            }
        }
    }

    /// Generates what follows the first token. Where the device works without the host, a step is
    /// under way while the tokens of the one before are looked at; a step that follows the last token
    /// wanted is thrown away.
    fn decode_from(
        &mut self,
        first: u32,
        mut sampling: SampleParams,
        limit: usize,
        out: &mut Generation,
        on_token: &mut dyn FnMut(Option<u32>) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        // The first token was the first draw.
        sampling.counter = sampling.counter.wrapping_add(1);
        let mut unsubmitted = limit - 1;
        let mut token = first;
        loop {
            out.ids.push(token);
            if self.model.tokenizer.is_end(token) {
                out.finish_reason = FinishReason::Stop;
                return Ok(());
            }
            if on_token(Some(token)).is_break() {
                out.finish_reason = FinishReason::Cancelled;
                return Ok(());
            }
            if out.ids.len() == limit {
                return Ok(());
            }
            if out.ids.len() == 1 {
                let position = self.cached.len() as u32;
                self.runner.begin_decode(&[DecodeRow { token, position, sampling }])?;
            }
            unsubmitted -= self.keep_steps_under_way(unsubmitted)?;
            let Some(step) = self.runner.collect_step()? else { return Ok(()) };
            self.cached.push(token);
            token = step.tokens[0];
        }
    }

    /// Forgets cached positions from `keep` on.
    pub(super) fn forget_after(&mut self, keep: usize) -> Result<(), EngineError> {
        // A step that an ended answer left under way writes to blocks that are about to be free.
        self.runner.discard_steps()?;
        self.cached.truncate(keep);
        self.runner.truncate(0, keep as u32);
        Ok(())
    }
}
