//! Formatted text within the budget: the filter `format` (`"%s" | format(x)`) and the method (`"{}".format(x)`).
//!
//! The engine's own have two gaps. Both fail badly on a key in brackets that is not ASCII, and the method pays
//! for nothing: a width of a thousand million is taken at its word. So what they are given is looked at first.

use super::measure::Metered;
use minijinja::value::{Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State};
use std::io::Write;

/// The widest field and the most digits that the method makes.
const MAX_WIDTH: u64 = 9999;

/// The filter `format`.
pub(super) fn filter(
    state: &mut State<'_, '_>,
    format: &Value,
    values: Rest<ValueOrKwargs>,
) -> Result<Value, Error> {
    if let Some(text) = format.as_str() {
        ascii_keys(text, '(', ')')?;
    }
    minijinja::filters::format(state, format, values)
}

/// Methods that Python's values have and the engine's lack, the method `format` among them.
pub(super) fn method(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    values: &[Value],
) -> Result<Value, Error> {
    if let ("format", Some(text)) = (name, value.as_str()) {
        ascii_keys(text, '[', ']')?;
        pay(state, text, values)?;
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, values)
}

/// Refuses characters beyond ASCII between brackets, wherever these stand: the engine cuts text there without
/// regard for characters.
fn ascii_keys(text: &str, open: char, close: char) -> Result<(), Error> {
    let mut inside = false;
    for c in text.chars() {
        if c == open {
            inside = true;
        } else if c == close {
            inside = false;
        } else if inside && !c.is_ascii() {
            return Err(refusal(format!(
                "a format string has {c:?} inside `{open}{close}`; keys must be ASCII"
            )));
        }
    }
    Ok(())
}

/// Pays for the text that a format string can make of some values before it is made.
fn pay(state: &State<'_, '_>, text: &str, values: &[Value]) -> Result<(), Error> {
    let mut widths = 0u64;
    let mut number = 0u64;
    for byte in text.bytes() {
        number = match byte {
            b'0'..=b'9' => number.saturating_mul(10).saturating_add(u64::from(byte - b'0')),
            _ => 0,
        };
        if number > MAX_WIDTH {
            return Err(refusal(format!(
                "a format string asks for more than {MAX_WIDTH} characters in one field"
            )));
        }
        // Each prefix of a number counts, which only makes the bound larger.
        widths += number;
    }
    let mut longest = 0;
    for value in values {
        longest = longest.max(written(state, value)?);
    }
    // Every field may show the longest value.
    let fields = text.bytes().filter(|byte| *byte == b'{').count() as u64;
    let bytes = fields.saturating_mul(longest).saturating_add(widths).saturating_add(text.len() as u64);
    state.consume_fuel(1 + bytes / 64)
}

/// Bytes of a value's text.
fn written(state: &State<'_, '_>, value: &Value) -> Result<u64, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().map_or(0, |text| text.len() as u64)),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable | ValueKind::Plain => {
            let mut sink = Metered::new(state);
            write!(sink, "{value}").map_err(|_| Error::from(ErrorKind::OutOfFuel))?;
            Ok(sink.into_string()?.len() as u64)
        }
        // The longest number has some three hundred digits.
        _ => Ok(512),
    }
}

fn refusal(what: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

#[cfg(test)]
mod tests {
    use super::super::{ChatRender, ChatTemplate, TemplateError};
    use std::time::{Duration, Instant};

    fn rendered(source: &str) -> Result<String, TemplateError> {
        ChatTemplate::new(source, "", "").unwrap().render(&ChatRender::default())
    }

    #[test]
    fn ordinary_formats_work() {
        assert_eq!(rendered("{{ '%s-%5.2f %%' | format('é', 1.5) }}").unwrap(), "é- 1.50 %");
        assert_eq!(rendered("{{ 'é {0}{1:>4} {x[a]}'.format(1, 2, x={'a': 'ü'}) }}").unwrap(), "é 1   2 ü");
        assert_eq!(rendered("{{ ' a'.strip() ~ '%(k)s' | format(k=3) }}").unwrap(), "a3");
    }

    #[test]
    fn what_the_engine_would_fail_on_is_refused() {
        for source in [
            "{{ '%(é)s' | format(1) }}",
            "{{ '%(é' | format(1) }}",
            "{{ '{x[é]}'.format(x=1) }}",
            "{{ '{0[é'.format(1) }}",
            "{{ '{:>99999999999}'.format(1) }}",
            "{{ '{:.999999999f}'.format(1.5) }}",
        ] {
            let error = rendered(source).unwrap_err().to_string();
            assert!(error.contains("a format string"), "{source}: {error}");
        }
    }

    #[test]
    fn formatting_is_paid_for() {
        let repeated = "{% set n = namespace(x='x' * 60000) %}{% for a in range(9999) %}\
                        {% set y = FORMAT.format(n.x) %}{% endfor %}";
        let wide =
            "{% for a in range(99999) %}{% set y = '{:>9999}{:>9999}{:>9999}'.format(1, 2, 3) %}{% endfor %}";
        let many = repeated.replace("FORMAT", &format!("'{}'", "{0}".repeat(1000)));
        for source in [wide, &many] {
            let start = Instant::now();
            assert!(matches!(rendered(source), Err(TemplateError::TooMuchWork { .. })), "{source:.200}");
            let took = start.elapsed();
            assert!(took < Duration::from_secs(10), "{took:?}");
        }
    }
}
