//! What templates expect because they were written for Jinja in Python, beyond what the engine has.

use super::error::Raised;
use super::measure::Metered;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter, Serializer};
use std::io;

/// `raise_exception(message)`: the template refuses the conversation.
pub(super) fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// The test `iterable`: unlike for the engine, not of none.
pub(super) fn is_iterable(value: &Value) -> bool {
    use ValueKind::{Bytes, Iterable, Map, Seq, String, Undefined};
    matches!(value.kind(), Seq | Map | Iterable | String | Bytes | Undefined)
}

/// The test `sequence`, which in Python also holds of text and maps.
pub(super) fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Bytes)
}

/// The `tojson` filter as chat templates mean it: JSON as Python writes it, with spaces after `,` and `:` and without
/// HTML escapes. Takes `indent`, `ensure_ascii`, `separators` and `sort_keys`.
pub(super) fn tojson(state: &State<'_, '_>, value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let ensure_ascii: Option<bool> = options.get("ensure_ascii")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    let sort_keys: Option<bool> = options.get("sort_keys")?;
    options.assert_all_used()?;
    if let Some(width) = indent.filter(|width| *width > MAX_INDENT) {
        let detail = format!("tojson: indent is {width}, the most is {MAX_INDENT}");
        return Err(Error::new(ErrorKind::InvalidOperation, detail));
    }
    let mut given = separators.unwrap_or_default().into_iter();
    let spaced = Spaced {
        item: given.next().unwrap_or_else(|| ", ".to_owned()),
        key: given.next().unwrap_or_else(|| ": ".to_owned()),
        inner: CompactFormatter,
    };
    let spaces = " ".repeat(indent.unwrap_or_default());
    let pretty = PrettyFormatter::with_indent(spaces.as_bytes());
    let text = match (sort_keys, indent) {
        (Some(true), _) => {
            let unsorted = write(state, value, CompactFormatter)?;
            let mut json: serde_json::Value = serde_json::from_str(&unsorted).map_err(no_json)?;
            json.sort_all_objects();
            if indent.is_some() { write(state, &json, pretty)? } else { write(state, &json, spaced)? }
        }
        (_, Some(_)) => write(state, value, pretty)?,
        (_, None) => write(state, value, spaced)?,
    };
    Ok(Value::from(if ensure_ascii == Some(true) { escape_non_ascii(&text) } else { text }))
}

/// The widest indent of JSON: deep structures times a wide indent make much out of little.
const MAX_INDENT: usize = 16;

fn write(state: &State<'_, '_>, value: &impl Serialize, format: impl Formatter) -> Result<String, Error> {
    let mut sink = Metered::new(state);
    value.serialize(&mut Serializer::with_formatter(&mut sink, format)).map_err(|e| match e.is_io() {
        // The sink fails in one way only.
        true => Error::from(ErrorKind::OutOfFuel),
        false => no_json(e),
    })?;
    sink.into_string()
}

fn no_json(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::BadSerialization, format!("tojson: the value has no JSON form: {error}"))
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
