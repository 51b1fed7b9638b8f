//! Text from outside, made fit for a terminal and a record: one line, no control characters, bounded.

/// `text` on one line, without control characters, cut to `limit` characters.
///
/// What a plugin, a driver or a file says ends up in terminals; an escape sequence must not.
pub fn line(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut characters = 0;
    for word in text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|word| !word.is_empty()) {
        if characters > 0 {
            out.push(' ');
            characters += 1;
        }
        for character in word.chars() {
            if characters >= limit {
                out.push('…');
                return out;
            }
            out.push(character);
            characters += 1;
        }
    }
    out
}

/// Whether `text` is one line of visible characters: what names must be.
pub fn is_printable(text: &str) -> bool {
    !text.chars().any(|c| c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_line_breaks_become_single_spaces() {
        assert_eq!(line("a\n\n  b\u{1b}[31mc\t", 100), "a b [31mc");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(line("ééééé", 3), "ééé…");
        assert_eq!(line("ééé", 3), "ééé");
    }

    #[test]
    fn names_have_no_control_characters() {
        assert!(is_printable("K % 256"));
        assert!(!is_printable("a\u{7f}"));
    }
}
