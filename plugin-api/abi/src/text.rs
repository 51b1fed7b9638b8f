//! Text that crosses the ABI by value: fixed strings and host-owned error buffers.

use abi_stable::StableAbi;

/// A short UTF-8 string held by value. Longer text is cut at a character boundary.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text {
    len: u32,
    bytes: [u8; Text::CAPACITY],
}

impl Text {
    /// Bytes a [`Text`] can hold.
    pub const CAPACITY: usize = 124;
    /// The empty string.
    pub const EMPTY: Text = Text { len: 0, bytes: [0; Text::CAPACITY] };

    /// The text, cut to [`Text::CAPACITY`] bytes.
    pub fn new(text: &str) -> Text {
        let mut out = Text::EMPTY;
        let len = char_floor(text, Text::CAPACITY);
        out.bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        out.len = len as u32;
        out
    }

    /// The valid UTF-8 prefix. Never fails, whatever a plugin wrote.
    pub fn as_str(&self) -> &str {
        valid_prefix(&self.bytes[..(self.len as usize).min(Text::CAPACITY)])
    }
}

impl Default for Text {
    fn default() -> Text {
        Text::EMPTY
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self.as_str(), f)
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a failing call writes its sentence. The memory is the host's.
#[repr(C)]
#[derive(StableAbi)]
pub struct ErrorBuf {
    len: u32,
    bytes: [u8; ErrorBuf::CAPACITY],
}

impl ErrorBuf {
    /// Bytes an error sentence may take; more is cut.
    pub const CAPACITY: usize = 1020;

    /// An empty buffer.
    pub const fn new() -> ErrorBuf {
        ErrorBuf { len: 0, bytes: [0; ErrorBuf::CAPACITY] }
    }

    /// Replaces the sentence. Called by the plugin.
    pub fn set(&mut self, text: &str) {
        let len = char_floor(text, ErrorBuf::CAPACITY);
        self.bytes[..len].copy_from_slice(&text.as_bytes()[..len]);
        self.len = len as u32;
    }

    /// The valid UTF-8 prefix of what was written.
    pub fn as_str(&self) -> &str {
        valid_prefix(&self.bytes[..(self.len as usize).min(ErrorBuf::CAPACITY)])
    }
}

impl Default for ErrorBuf {
    fn default() -> ErrorBuf {
        ErrorBuf::new()
    }
}

fn char_floor(text: &str, limit: usize) -> usize {
    let mut len = text.len().min(limit);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    len
}

fn valid_prefix(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or(""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_a_character() {
        let long = "é".repeat(100);
        let text = Text::new(&long);
        assert_eq!(text.as_str(), "é".repeat(62));
    }

    #[test]
    fn a_lying_length_or_bad_utf8_is_survived() {
        let mut error = ErrorBuf::new();
        error.set("fine");
        error.len = u32::MAX;
        assert!(error.as_str().starts_with("fine"));
        error.bytes[2] = 0xff;
        assert_eq!(error.as_str(), "fi");
    }
}
