//! Conversations to prompts: the chat template that a model carries, rendered within bounds.
//!
//! Templates are Jinja programs written for Python and come from whoever made the file. They are compiled at load, so
//! that a bad one is known before the first request, and each rendering has a budget of work that covers instructions
//! and bytes made: a template can neither hang the caller nor use up the machine's memory. Templates see no file, no
//! environment and no other template.

mod error;
mod message;
mod clock;
mod tag;
mod guard;
mod measure;
mod formatting;
mod python;

pub use error::TemplateError;
pub use message::Message;

use crate::gguf::Metadata;
use crate::tokenizer::Tokenizer;
use minijinja::Environment;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use serde_json::Map;
use std::time::SystemTime;

/// Where GGUF files keep the template.
const KEY: &str = "tokenizer.chat_template";
/// What the template is called in the engine.
const NAME: &str = "chat_template";
/// The largest template accepted; real ones reach 20 KiB.
const MAX_TEMPLATE_BYTES: usize = 1 << 18;
/// Filters that put containers into containers, which no chat template was seen to use.
const UNMEASURED_FILTERS: [&str; 5] = ["batch", "slice", "groupby", "zip", "chain"];
/// Work allowed whatever the conversation: some four million instructions, or 256 MiB of text made along the way.
const BASE_FUEL: u64 = 4 << 20;
/// Work allowed for each byte of the conversation on top of that.
const FUEL_PER_BYTE: u64 = 1;

/// A compiled chat template. Immutable; share it between threads freely.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos_token: String,
    eos_token: String,
}

/// What one rendering is given. `..ChatRender::default()` leaves out what is not needed.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChatRender<'a> {
    /// The conversation, oldest first.
    pub messages: &'a [Message],
    /// Whether the prompt ends where the model's answer begins.
    pub add_generation_prompt: bool,
    /// Tool descriptions (a JSON list), for models that take them.
    pub tools: Option<&'a serde_json::Value>,
    /// Further variables, such as `enable_thinking`; they do not replace those above.
    pub variables: Option<&'a Map<String, serde_json::Value>>,
    /// The moment that `strftime_now` tells; the present when absent.
    pub now: Option<SystemTime>,
}

impl ChatTemplate {
    /// The template that a GGUF file carries, if it has one.
    ///
    /// # Errors
    /// When it is not text, absurdly large, or not a valid template; the file and the line are named.
    pub fn from_gguf(metadata: &Metadata, tokenizer: &Tokenizer) -> Result<Option<Self>, TemplateError> {
        let Some(source) = metadata.str(KEY)? else { return Ok(None) };
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or_default();
        let template = Self::new(source, text(tokenizer.bos()), text(tokenizer.eos()));
        template.map(Some).map_err(|error| error.in_file(metadata.path()))
    }

    /// The template `source`. The texts of the begin and end tokens are empty where the model has none: a template may
    /// use them either way.
    ///
    /// # Errors
    /// As [`from_gguf`](Self::from_gguf).
    pub fn new(source: &str, bos_token: &str, eos_token: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_TEMPLATE_BYTES {
            return Err(TemplateError::TooLarge { got: source.len(), limit: MAX_TEMPLATE_BYTES });
        }
        let mut environment = Environment::new();
        // The settings that templates are written for.
        let mut syntax = SyntaxConfig::builder();
        syntax.trim_blocks(true).lstrip_blocks(true);
        environment.set_syntax(syntax.build().map_err(|e| TemplateError::compiling(&e))?);
        environment.set_unknown_method_callback(formatting::method);
        environment.add_function("raise_exception", python::raise_exception);
        environment.add_filter("tojson", python::tojson);
        environment.add_filter("format", formatting::filter);
        environment.add_test("iterable", python::is_iterable);
        environment.add_test("sequence", python::is_sequence);
        environment.add_filter(guard::HELD, measure::held);
        environment.add_filter(guard::HELD_INSIDE, measure::held_inside);
        environment.add_filter(guard::FACTOR, measure::factor);
        environment.add_function("dict", measure::dict);
        environment.add_function("namespace", measure::namespace);
        for filter in UNMEASURED_FILTERS {
            environment.remove_filter(filter);
        }
        let guarded = guard::guarded(source)
            .map_err(|e| TemplateError::Syntax { line: e.line, detail: e.detail.to_owned() })?;
        environment.add_template_owned(NAME, guarded).map_err(|e| TemplateError::compiling(&e))?;
        let (bos_token, eos_token) = (bos_token.to_owned(), eos_token.to_owned());
        Ok(Self { environment, source: source.to_owned(), bos_token, eos_token })
    }

    /// The template as the file has it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The prompt for a conversation. It names special tokens by their text: encode it with
    /// [`Special::Parse`](crate::tokenizer::Special::Parse).
    ///
    /// # Errors
    /// When the template refuses the conversation, fails on it, or does not end within its budget.
    pub fn render(&self, chat: &ChatRender<'_>) -> Result<String, TemplateError> {
        let now = chat.now;
        let fuel = BASE_FUEL.saturating_add(FUEL_PER_BYTE.saturating_mul(size(chat)));
        // The budget and the clock are this rendering's own; the compiled template is shared.
        let mut environment = self.environment.clone();
        environment.set_fuel(Some(fuel));
        environment.add_function("strftime_now", move |format: String| {
            clock::strftime(&format, now.unwrap_or_else(SystemTime::now))
        });
        let mut context: std::collections::BTreeMap<&str, Value> = chat
            .variables
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.as_str(), Value::from(Serde(value))))
            .collect();
        context.insert("messages", Value::from(Serde(chat.messages)));
        context.insert("add_generation_prompt", Value::from(chat.add_generation_prompt));
        context.insert("bos_token", Value::from(self.bos_token.as_str()));
        context.insert("eos_token", Value::from(self.eos_token.as_str()));
        context.insert("tools", Value::from(Serde(chat.tools)));
        context.entry("documents").or_insert_with(|| Value::from(()));
        environment
            .get_template(NAME)
            .and_then(|template| template.render(Value::from_pairs(context)))
            .map_err(|e| TemplateError::rendering(&e, fuel))
    }
}

/// About how many bytes a rendering is given.
fn size(chat: &ChatRender<'_>) -> u64 {
    /// Counts what is written to it.
    struct Count(u64);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_add(bytes.len() as u64);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // These are JSON values and strings: they always have a JSON form, and counting cannot fail.
    let _ = serde_json::to_writer(&mut count, &(chat.messages, chat.tools, chat.variables));
    count.0
}

#[cfg(test)]
mod tests;
