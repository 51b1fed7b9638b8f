//! One message of a conversation, as templates see it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A message. Templates read `role` and `content` and, depending on the model, whatever else a client may send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user`, `assistant`, `tool`, or a role of the model's own.
    pub role: String,
    /// Usually a string; null beside tool calls, a list of parts for some models.
    #[serde(default)]
    pub content: Value,
    /// Everything else: `tool_calls`, `name`, `tool_call_id`, `reasoning_content`, …
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Message {
    /// A message of plain text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: Value::String(content.into()), more: Map::new() }
    }

    /// Instructions to the model.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new("system", content)
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// What the model said.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new("assistant", content)
    }
}
