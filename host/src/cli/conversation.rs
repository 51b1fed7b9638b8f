//! From words to prompt tokens: through the model's chat template, or as they are.

use cajeta::engine::LlmEngine;
use cajeta_model_arch::template::{ChatRender, Message};
use cajeta_model_arch::tokenizer::Special;

use super::failure::{Failure, Outcome};

/// The prompt of a conversation whose next turn is the model's.
pub(crate) fn chat_prompt(engine: &LlmEngine, messages: &[Message]) -> Outcome<Vec<u32>> {
    let Some(template) = engine.template() else {
        return Err(Failure::work(format!(
            "{} has no chat template; continue a text with `cajeta run --raw`",
            engine.path().display()
        )));
    };
    let chat = ChatRender { messages, add_generation_prompt: true, ..ChatRender::default() };
    let text = template.render(&chat)?;
    // Most templates write the begin token themselves; it is added once, whoever writes it.
    Ok(engine.tokenizer().with_bos(engine.tokenizer().encode(&text, Special::Parse)))
}

/// The prompt of a text to be continued.
pub(crate) fn raw_prompt(engine: &LlmEngine, text: &str) -> Vec<u32> {
    engine.tokenizer().with_bos(engine.tokenizer().encode(text, Special::Parse))
}
