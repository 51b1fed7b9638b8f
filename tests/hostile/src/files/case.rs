//! One hostile file: its bytes, what must be said of it, and by whom.

use super::draft::Draft;

/// Who finds out that something is wrong.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Finder {
    /// Whoever opens the file.
    Open,
    /// Whoever makes its tokenizer.
    Tokenizer,
    /// Whoever loads the model.
    Model,
    /// Whoever gives it a conversation.
    Chat,
    /// Whoever computes with it.
    Step,
}

/// One hostile file.
pub struct Case {
    /// What is wrong with it.
    pub name: String,
    /// The file.
    pub bytes: Vec<u8>,
    /// Part of what is said.
    pub says: String,
    /// Who says it.
    pub finder: Finder,
}

impl Case {
    /// Bytes that whoever opens them refuses.
    pub(super) fn unopened(name: &str, bytes: impl Into<Vec<u8>>, says: &str) -> Case {
        Case { name: name.into(), bytes: bytes.into(), says: says.into(), finder: Finder::Open }
    }

    /// A draft after one change.
    pub(super) fn of(
        name: impl Into<String>,
        mut draft: Draft,
        change: impl FnOnce(&mut Draft),
        (finder, says): (Finder, impl Into<String>),
    ) -> Case {
        change(&mut draft);
        Case { name: name.into(), bytes: draft.bytes(), says: says.into(), finder }
    }
}
