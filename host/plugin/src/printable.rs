//! Text from outside, made fit for a terminal and a record: one line, no character that steers, bounded.

/// Whether a character steers a terminal or turns the order of what is shown around it, and shows nothing itself:
/// the control characters, and Unicode's marks and overrides of direction.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` on one line, without characters that steer, cut to `limit` characters.
///
/// What a plugin, a driver or a file says ends up in terminals; an escape sequence must not.
pub fn line(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut characters = 0;
    for word in text.split(|c: char| steers(c) || c.is_whitespace()).filter(|word| !word.is_empty()) {
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
    !text.chars().any(steers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_line_breaks_become_single_spaces() {
        assert_eq!(line("a\n\n  b\u{1b}[31mc\t", 100), "a b [31mc");
        assert_eq!(line("lost\u{202e}tsol\u{2069}", 100), "lost tsol", "nothing turns the line around");
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        assert_eq!(line("ééééé", 3), "ééé…");
        assert_eq!(line("ééé", 3), "ééé");
    }

    #[test]
    fn names_have_no_control_characters() {
        assert!(is_printable("K % 256"));
        assert!(!is_printable("a\u{7f}") && !is_printable("a\u{202e}b") && !is_printable("a\u{200f}"));
    }
}
