//! Measuring the values that a template builds, and JSON within the same budget.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// How deep lists and maps may be inside one another. Tool descriptions reach about fifteen.
const MAX_DEPTH: usize = 96;
/// How many namespaces one value may hold, counted as often as they occur: each can be filled after it was measured.
const MAX_NAMESPACES: u32 = 64;

/// Passes `value` on if what it holds, counted as often as it occurs, fits the budget; charges for it.
pub(super) fn held(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    Meter { state, namespaces: Some(0) }.pass(value)
}

/// As [`held`], for values assigned to a namespace: they hold none, so that none comes to hold itself.
pub(super) fn held_inside(state: &State<'_, '_>, value: Value) -> Result<Value, Error> {
    Meter { state, namespaces: None }.pass(value)
}

/// Passes on what may stand beside `*`: all but lists and maps.
pub(super) fn factor(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => Err(Error::new(
            ErrorKind::InvalidOperation,
            "a list cannot be repeated with `*` in a chat template",
        )),
        _ => Ok(value),
    }
}

/// `dict(…)`, measured.
pub(super) fn dict(state: &State<'_, '_>, value: Option<Value>, more: Kwargs) -> Result<Value, Error> {
    held(state, minijinja::functions::dict(value, more)?)
}

/// `namespace(…)`, whose first values are measured as later ones are.
pub(super) fn namespace(state: &State<'_, '_>, value: Option<Value>, more: Kwargs) -> Result<Value, Error> {
    let first = held(state, minijinja::functions::dict(value, more)?)?;
    minijinja::functions::namespace(Some(first.into()))
}

struct Meter<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    /// How many namespaces were met; `None` where there may be none.
    namespaces: Option<u32>,
}

impl Meter<'_, '_, '_> {
    fn pass(mut self, value: Value) -> Result<Value, Error> {
        if value.kind() != ValueKind::Iterable {
            self.measure(&value, 0)?;
            return Ok(value);
        }
        // Such a value may be read only once; a list of its items may be read again.
        let mut items = Vec::new();
        for item in value.try_iter()? {
            self.measure(&item, 1)?;
            items.push(item);
        }
        Ok(Value::from(items))
    }

    fn measure(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        if value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace")) {
            let count = self
                .namespaces
                .as_mut()
                .ok_or_else(|| refusal("a namespace cannot be put into a namespace later"))?;
            *count += 1;
            if *count > MAX_NAMESPACES {
                return Err(refusal("one value holds more than 64 namespaces"));
            }
        }
        match value.kind() {
            ValueKind::Plain if depth > 0 => Err(refusal("a macro cannot be put into another value")),
            ValueKind::Seq | ValueKind::Map | ValueKind::Iterable if depth >= MAX_DEPTH => {
                Err(refusal("lists and maps are nested more than 96 deep"))
            }
            ValueKind::Map => {
                for key in value.try_iter()? {
                    let item = value.get_item(&key)?;
                    self.measure(&key, depth + 1)?;
                    self.measure(&item, depth + 1)?;
                }
                Ok(())
            }
            ValueKind::Seq | ValueKind::Iterable => {
                for item in value.try_iter()? {
                    self.measure(&item, depth + 1)?;
                }
                Ok(())
            }
            // A value of its own costs nothing more: it was paid for when it was made.
            _ if depth == 0 => Ok(()),
            _ => self.state.consume_fuel(1 + value.as_str().map_or(0, |text| text.len() as u64 / 64)),
        }
    }
}

fn refusal(what: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

/// A sink for text made from a value, paid for as it grows so that it cannot outgrow the budget first.
pub(super) struct Metered<'a, 'b, 'c> {
    state: &'a State<'b, 'c>,
    bytes: Vec<u8>,
    /// How many bytes have been paid for.
    paid: usize,
}

/// Bytes paid for at a time.
const PORTION: usize = 4096;

impl<'a, 'b, 'c> Metered<'a, 'b, 'c> {
    pub(super) fn new(state: &'a State<'b, 'c>) -> Self {
        Self { state, bytes: Vec::new(), paid: 0 }
    }

    /// The text.
    pub(super) fn into_string(self) -> Result<String, Error> {
        String::from_utf8(self.bytes).map_err(|e| Error::new(ErrorKind::BadSerialization, e.to_string()))
    }
}

impl std::io::Write for Metered<'_, '_, '_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        while self.paid - self.bytes.len() < bytes.len() {
            self.state
                .consume_fuel((PORTION / 16) as u64)
                .map_err(|_| std::io::Error::other("out of fuel"))?;
            self.paid += PORTION;
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
