//! What templates expect because they were written for Jinja in Python, beyond what the engine has.

use super::error::Raised;
use minijinja::value::{Kwargs, Value};
use minijinja::{Error, ErrorKind};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use std::io;

/// `raise_exception(message)`: the template refuses the conversation.
pub(super) fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// The `tojson` filter as chat templates mean it: JSON as Python writes it, with spaces after `,` and `:` and without
/// HTML escapes. Takes `indent`, `ensure_ascii`, `separators` and `sort_keys`.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let ensure_ascii: Option<bool> = options.get("ensure_ascii")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    let failed = |e: serde_json::Error| {
        Error::new(ErrorKind::BadSerialization, format!("tojson: the value has no JSON form: {e}"))
    };
    let mut json = serde_json::to_value(value).map_err(failed)?;
    if sort_keys == Some(true) {
        json.sort_all_objects();
    }
    let mut bytes = Vec::new();
    match indent {
        // Deep structures times a wide indent would make much out of little.
        Some(width) if width > 16 => {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("tojson: indent is {width}, the most is 16"),
            ));
        }
        Some(width) => {
            let spaces = " ".repeat(width);
            json.serialize(&mut Serializer::with_formatter(
                &mut bytes,
                PrettyFormatter::with_indent(spaces.as_bytes()),
            ))
        }
        None => {
            let mut given = separators.unwrap_or_default().into_iter();
            let item = given.next().unwrap_or_else(|| ", ".to_owned());
            let key = given.next().unwrap_or_else(|| ": ".to_owned());
            json.serialize(&mut Serializer::with_formatter(
                &mut bytes,
                Spaced { item, key, inner: CompactFormatter },
            ))
        }
    }
    .map_err(failed)?;
    let text =
        String::from_utf8(bytes).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))?;
    Ok(Value::from(if ensure_ascii == Some(true) { escape_non_ascii(&text) } else { text }))
}

/// JSON on one line with the given separators.
struct Spaced {
    item: String,
    key: String,
    inner: CompactFormatter,
}

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(self.item.as_bytes()) }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { self.inner.begin_object_key(writer, true) } else { writer.write_all(self.item.as_bytes()) }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.key.as_bytes())
    }
}

/// JSON in ASCII: outside strings it is ASCII already.
fn escape_non_ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Templates used in training mark the model's own words with `{% generation %}…{% endgeneration %}`. The marks add
/// nothing to the text, so they become a condition that always holds, whitespace control included.
pub(super) fn without_generation_marks(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(open) = rest.find("{%") {
        let (before, tag) = rest.split_at(open + 2);
        out.push_str(before);
        rest = tag;
        let lead =
            tag.len() - tag.trim_start_matches(|c: char| c == '-' || c == '+' || c.is_whitespace()).len();
        let word_end = tag[lead..]
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map_or(tag.len(), |n| lead + n);
        let alone = tag[word_end..]
            .trim_start_matches(|c: char| c == '-' || c == '+' || c.is_whitespace())
            .starts_with("%}");
        let replacement = match &tag[lead..word_end] {
            "generation" if alone => "if true",
            "endgeneration" if alone => "endif",
            _ => continue,
        };
        out.push_str(&tag[..lead]);
        out.push_str(replacement);
        rest = &tag[word_end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_marks_become_conditions_that_hold() {
        let check = |source, expected| assert_eq!(without_generation_marks(source), expected);
        check("a{% generation %}b{% endgeneration %}c", "a{% if true %}b{% endif %}c");
        check("{%- generation -%}\n{%-endgeneration-%}", "{%- if true -%}\n{%-endif-%}");
        check(
            "{% set generation = 1 %}{% if generation %}{{ generation }}",
            "{% set generation = 1 %}{% if generation %}{{ generation }}",
        );
        check("{% generations %}{% generation", "{% generations %}{% generation");
        check("{%", "{%");
    }
}
