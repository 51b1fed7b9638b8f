//! From words to prompt tokens: through the model's chat template, or as they are.

use cajeta::engine::LlmEngine;
use cajeta_model_arch::template::{ChatRender, ChatTemplate, Message};
use cajeta_model_arch::tokenizer::Special;

use super::failure::{Failure, Outcome};
use super::output;

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

/// Whether a template takes instructions to the model: some leave them out without a word.
pub(crate) fn takes_instructions(template: &ChatTemplate) -> bool {
    const MARK: &str = "instructions-of-this-kind";
    let messages = [Message::system(MARK), Message::user("x")];
    let chat = ChatRender { messages: &messages, add_generation_prompt: true, ..ChatRender::default() };
    template.render(&chat).is_ok_and(|text| text.contains(MARK))
}

/// Tells people when the instructions they gave will not reach the model.
pub(crate) fn mention_lost_instructions(engine: &LlmEngine) {
    if engine.template().is_some_and(|template| !takes_instructions(template)) {
        output::note("the chat template of this model leaves instructions out");
    }
}

/// The prompt of a text to be continued.
pub(crate) fn raw_prompt(engine: &LlmEngine, text: &str) -> Vec<u32> {
    engine.tokenizer().with_bos(engine.tokenizer().encode(text, Special::Parse))
}
