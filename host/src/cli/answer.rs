//! One answer: generated, shown as it comes, stopped when asked.

use std::ops::ControlFlow;
use std::time::Duration;

use cajeta::engine::{FinishReason, Generation, LlmEngine, Sampling};
use cajeta_model_arch::tokenizer::StreamDecoder;

use super::failure::Outcome;
use super::interrupt::Answering;
use super::output;

/// What was generated.
pub(crate) struct Answer {
    /// Tokens, reason, timings.
    pub(crate) generation: Generation,
    /// The tokens' text, without the token that ended it.
    pub(crate) text: String,
}

impl Answer {
    /// Whether the user stopped it.
    pub(crate) fn is_stopped(&self) -> bool {
        self.generation.finish_reason == FinishReason::Cancelled
    }
}

/// Generates; with `show`, text goes to standard output as soon as its characters are whole.
pub(crate) fn generate(
    engine: &mut LlmEngine,
    prompt: &[u32],
    max_tokens: Option<usize>,
    sampling: &Sampling,
    show: bool,
) -> Outcome<Answer> {
    let tokenizer = engine.tokenizer().clone();
    let mut decoder = StreamDecoder::new(false);
    let mut text = String::new();
    let mut shown = Ok(());
    let answering = Answering::begin();
    let generation = engine.generate(prompt, max_tokens, sampling, &mut |token| {
        if let Some(id) = token {
            let piece = decoder.push(&tokenizer, id);
            text.push_str(&piece);
            if show && !piece.is_empty() {
                shown = output::piece(&piece);
            }
        }
        if shown.is_err() || answering.is_stopped() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    drop(answering);
    shown?;
    let generation = match generation {
        Ok(generation) => generation,
        Err(error) => {
            // The sentence about it must not stand behind half an answer.
            if show && !text.is_empty() && !text.ends_with('\n') {
                output::text("\n")?;
            }
            return Err(error.into());
        }
    };
    let rest = decoder.flush();
    text.push_str(&rest);
    if show {
        // What comes next, be it a prompt or a message, starts on its own line.
        output::piece(&format!("{rest}\n"))?;
    }
    Ok(Answer { generation, text })
}

/// The times of an answer on one line: for people, on standard error.
pub(crate) fn timings_line(engine: &LlmEngine, answer: &Answer) -> String {
    let timings = &answer.generation.timings;
    format!(
        "prefill {} tokens, {:.1} tok/s | decode {} tokens, {:.1} tok/s | {}: {}",
        timings.prefill_tokens,
        timings.prefill_rate(),
        timings.decode_tokens,
        timings.decode_rate(),
        engine.backend().id(),
        engine.device().name
    )
}

/// Milliseconds with their fraction.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
