//! Reading one `{{ … }}` or `{% … %}` of a template into tokens, as its compiler does.

/// The first word of a tag.
pub(super) fn first_word(tag: &str) -> &str {
    let inside = tag.get(2..).unwrap_or_default();
    let inside = inside.trim_start_matches(['-', '+']).trim_start();
    let end = inside.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inside.len());
    &inside[..end]
}

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Word,
    Number,
    Text,
    Open,
    Close,
    Operator,
}

/// A piece of a tag, with its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    pub(super) start: usize,
}

impl Token<'_> {
    /// Where the token ends.
    pub(super) fn end(&self) -> usize {
        self.start + self.text.len()
    }

    /// Whether this is that word, bracket or operator.
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text && self.kind != Kind::Text
    }
}

/// The tokens of a tag that starts `source`, and the tag's length. A tag that does not end is left to the compiler.
pub(super) fn tokens<'t>(source: &'t str, close: &[u8; 2]) -> Option<(Vec<Token<'t>>, usize)> {
    let bytes = source.as_bytes();
    let mut out = Vec::new();
    let mut depth = 0_usize;
    let mut at = 2;
    if matches!(bytes.get(at), Some(b'-' | b'+')) {
        at += 1;
    }
    while let Some(&byte) = bytes.get(at) {
        let ends = |from: usize| bytes.get(from..from + 2) == Some(&close[..]);
        if depth == 0 && (ends(at) || (matches!(byte, b'-' | b'+') && ends(at + 1))) {
            return Some((out, if ends(at) { at + 2 } else { at + 3 }));
        }
        let start = at;
        let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || !b.is_ascii();
        let kind = match byte {
            b'"' | b'\'' => {
                at += 1;
                while *bytes.get(at)? != byte {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
                Kind::Text
            }
            b'0'..=b'9' => {
                at += bytes[at..].iter().take_while(|b| word(b)).count();
                let fraction =
                    bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
                if fraction {
                    at += 1 + bytes[at + 1..].iter().take_while(|b| word(b)).count();
                }
                Kind::Number
            }
            _ if word(&byte) => {
                at += bytes[at..].iter().take_while(|b| word(b)).count();
                Kind::Word
            }
            b'(' | b'[' | b'{' => {
                depth += 1;
                at += 1;
                Kind::Open
            }
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                at += 1;
                Kind::Close
            }
            _ if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            _ => {
                at += if matches!(bytes.get(at..at + 2), Some(b"**" | b"//" | b"==" | b"!=" | b"<=" | b">="))
                {
                    2
                } else {
                    1
                };
                Kind::Operator
            }
        };
        out.push(Token { kind, text: source.get(start..at)?, start });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, close: &[u8; 2], expected: Option<(&[&str], usize)>) {
        let got = tokens(source, close);
        let got =
            got.as_ref().map(|(tokens, length)| (tokens.iter().map(|t| t.text).collect::<Vec<_>>(), *length));
        assert_eq!(got, expected.map(|(texts, length)| (texts.to_vec(), length)), "{source}");
    }

    #[test]
    fn tags_end_outside_text_and_brackets() {
        check("{{- a.b[1.5] -}} rest", b"}}", Some((&["a", ".", "b", "[", "1.5", "]"], 16)));
        check("{{ {'}}': {}} }}", b"}}", Some((&["{", "'}}'", ":", "{", "}", "}"], 16)));
        check("{% if a**2>=é %}", b"%}", Some((&["if", "a", "**", "2", ">=", "é"], 17)));
        check(r#"{{ "\"}}" }}"#, b"}}", Some((&[r#""\"}}""#], 12)));
    }

    #[test]
    fn what_does_not_end_is_no_tag() {
        for source in ["{{", "{{ a", "{{ 'a }}", "{{ [ }}", "{{ '\\"] {
            check(source, b"}}", None);
        }
    }

    #[test]
    fn first_words() {
        assert_eq!(["{%- set x", "{%raw%}", "{%", "{% -"].map(first_word), ["set", "raw", "", ""]);
    }
}
