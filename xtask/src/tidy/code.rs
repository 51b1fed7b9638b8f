//! Rust text reduced to its code: comments and literals become spaces, lines stay where they are.

/// Blanks comments and the insides of string and character literals, keeping every line break,
/// so that a word found in the result is really code and its line number is right.
pub(super) fn blank_prose(text: &str) -> String {
    let mut blanked: String = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skip = prose_length(rest, blanked.chars().next_back());
        let length = if skip > 0 { skip } else { first.len_utf8() };
        let (piece, after) = rest.split_at(length);
        if skip > 0 {
            blanked.extend(piece.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        } else {
            blanked.push(first);
        }
        rest = after;
    }
    blanked
}

/// Length in bytes of the comment or literal that starts here; zero when none does.
fn prose_length(rest: &str, before: Option<char>) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment_length(rest);
    }
    if rest.starts_with('"') {
        return quoted_length(rest, '"');
    }
    let in_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if !in_word {
        for prefix in ["r", "br", "cr"] {
            if let Some(length) = rest.strip_prefix(prefix).and_then(raw_string_length) {
                return prefix.len() + length;
            }
        }
    }
    if rest.starts_with('\'') { character_length(rest) } else { 0 }
}

/// Block comments nest.
fn block_comment_length(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    rest.len()
}

/// A literal with backslash escapes, from its opening to its closing mark.
fn quoted_length(rest: &str, mark: char) -> usize {
    let mut characters = rest.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if character == mark {
            return at + mark.len_utf8();
        }
    }
    rest.len()
}

/// `#…#"…"#…#` after the `r`; `None` for a raw identifier or anything else.
fn raw_string_length(rest: &str) -> Option<usize> {
    let hashes = rest.bytes().take_while(|byte| *byte == b'#').count();
    let body = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(hashes + 1 + length)
}

/// A character literal, told from a lifetime by its closing mark.
fn character_length(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), _) => quoted_length(rest, '\''),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::blank_prose;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(blank_prose(text), expected);
        assert_eq!(blank_prose(text).lines().count(), text.lines().count());
    }

    #[test]
    fn comments_go_and_lines_stay() {
        check("a // b\nc", "a     \nc");
        check("a /* b /* c */\nd */ e", "a             \n     e");
    }

    #[test]
    fn strings_go_with_their_escapes() {
        check(r#"f("a\"b") + c"#, "f(      ) + c");
        check("r#\"a\"b\"# c", "         c");
        check("br\"a\" c", "      c");
    }

    #[test]
    fn characters_go_and_lifetimes_stay() {
        check(r"f('a', '\'', b'x')", "f(   ,     , b   )");
        check("&'a str", "&'a str");
        check("'\"' + x", "    + x");
    }

    #[test]
    fn a_word_that_ends_in_r_is_not_a_raw_string() {
        check("for\"a\"", "for   ");
        check("r#type", "r#type");
    }

    #[test]
    fn an_unclosed_literal_ends_with_the_text() {
        check("\"abc", "    ");
        check("/* abc", "      ");
    }
}
