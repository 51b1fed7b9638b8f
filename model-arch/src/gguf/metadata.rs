//! The metadata section: parsing it within its caps, and asking it for values of a known type.

use super::cursor::{Cursor, Short};
use super::error::{GgufError, GgufProblem};
use super::limits;
use super::value::{MetaArray, MetaType, MetaValue, StringArray};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The keys and values of one file, in file order, findable by key.
#[derive(Debug, Default)]
pub struct Metadata {
    path: PathBuf,
    entries: Vec<(Box<str>, MetaValue)>,
    positions: HashMap<Box<str>, usize>,
}

impl Metadata {
    /// Reads `count` entries.
    pub(super) fn parse(path: &Path, cursor: &mut Cursor<'_>, count: u64) -> Result<Self, GgufProblem> {
        // A key takes at least 13 bytes (length, one letter, type), so the file bounds the count too.
        let capacity = count.min(cursor.left() / 13) as usize;
        let mut metadata = Metadata {
            path: path.to_path_buf(),
            entries: Vec::with_capacity(capacity),
            positions: HashMap::with_capacity(capacity),
        };
        for number in 0..count {
            let what = || format!("metadata key number {number}");
            let key = read_str(cursor, limits::MAX_KEY_BYTES, what)?;
            if key.is_empty() {
                return Err(GgufProblem::EmptyKey(number));
            }
            let meta_type = read_type(cursor, key)?;
            let value = read_value(cursor, key, meta_type)?;
            if metadata.positions.insert(key.into(), metadata.entries.len()).is_some() {
                return Err(GgufProblem::DuplicateKey(key.into()));
            }
            metadata.entries.push((key.into(), value));
        }
        Ok(metadata)
    }

    /// The file they are of.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&MetaValue> {
        self.positions.get(key).and_then(|&position| self.entries.get(position)).map(|(_, value)| value)
    }

    /// All entries in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &MetaValue)> {
        self.entries.iter().map(|(key, value)| (&**key, value))
    }

    /// The string at `key`; an error when another type stands there.
    pub fn str(&self, key: &str) -> Result<Option<&str>, GgufError> {
        self.typed(key, "a string", |value| match value {
            MetaValue::String(string) => Some(&**string),
            _ => None,
        })
    }

    /// The integer at `key`, of whichever integer type; an error when it is negative or over 32 bits.
    pub fn u32(&self, key: &str) -> Result<Option<u32>, GgufError> {
        let Some(integer) = self.typed(key, "an integer", MetaValue::as_integer)? else { return Ok(None) };
        u32::try_from(integer).map(Some).map_err(|_| {
            let (key, found) = (key.into(), integer.to_string());
            self.error(GgufProblem::OutOfRange { key, expected: "an integer from 0 to 4294967295", found })
        })
    }

    /// The number at `key`, f32 or f64.
    pub fn f32(&self, key: &str) -> Result<Option<f32>, GgufError> {
        self.typed(key, "a floating-point number", |value| match value {
            MetaValue::F32(number) => Some(*number),
            MetaValue::F64(number) => Some(*number as f32),
            _ => None,
        })
    }

    /// The bool at `key`.
    pub fn bool(&self, key: &str) -> Result<Option<bool>, GgufError> {
        self.typed(key, "a bool", |value| match value {
            MetaValue::Bool(truth) => Some(*truth),
            _ => None,
        })
    }

    /// The array of strings at `key`.
    pub fn strings(&self, key: &str) -> Result<Option<&StringArray>, GgufError> {
        self.typed(key, "an array of strings", |value| match value {
            MetaValue::Array(MetaArray::String(strings)) => Some(strings),
            _ => None,
        })
    }

    /// The array of i32 at `key`.
    pub fn i32s(&self, key: &str) -> Result<Option<&[i32]>, GgufError> {
        self.typed(key, "an array of i32", |value| match value {
            MetaValue::Array(MetaArray::I32(numbers)) => Some(&**numbers),
            _ => None,
        })
    }

    /// The array of f32 at `key`.
    pub fn f32s(&self, key: &str) -> Result<Option<&[f32]>, GgufError> {
        self.typed(key, "an array of f32", |value| match value {
            MetaValue::Array(MetaArray::F32(numbers)) => Some(&**numbers),
            _ => None,
        })
    }

    /// [`str`](Self::str), with a missing key an error.
    pub fn require_str(&self, key: &str) -> Result<&str, GgufError> {
        self.present(key, self.str(key)?)
    }

    /// [`u32`](Self::u32), with a missing key an error.
    pub fn require_u32(&self, key: &str) -> Result<u32, GgufError> {
        self.present(key, self.u32(key)?)
    }

    /// [`f32`](Self::f32), with a missing key an error.
    pub fn require_f32(&self, key: &str) -> Result<f32, GgufError> {
        self.present(key, self.f32(key)?)
    }

    /// [`bool`](Self::bool), with a missing key an error.
    pub fn require_bool(&self, key: &str) -> Result<bool, GgufError> {
        self.present(key, self.bool(key)?)
    }

    /// [`strings`](Self::strings), with a missing key an error.
    pub fn require_strings(&self, key: &str) -> Result<&StringArray, GgufError> {
        self.present(key, self.strings(key)?)
    }

    /// [`i32s`](Self::i32s), with a missing key an error.
    pub fn require_i32s(&self, key: &str) -> Result<&[i32], GgufError> {
        self.present(key, self.i32s(key)?)
    }

    /// [`f32s`](Self::f32s), with a missing key an error.
    pub fn require_f32s(&self, key: &str) -> Result<&[f32], GgufError> {
        self.present(key, self.f32s(key)?)
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        expected: &'static str,
        read: impl FnOnce(&'a MetaValue) -> Option<T>,
    ) -> Result<Option<T>, GgufError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| {
            self.error(GgufProblem::WrongType { key: key.into(), expected, found: value.meta_type() })
        })
    }

    fn present<T>(&self, key: &str, value: Option<T>) -> Result<T, GgufError> {
        value.ok_or_else(|| self.error(GgufProblem::MissingKey { key: key.into() }))
    }

    fn error(&self, problem: GgufProblem) -> GgufError {
        GgufError::new(&self.path, problem)
    }
}

pub(super) fn truncated(what: impl Into<String>) -> impl FnOnce(Short) -> GgufProblem {
    move |Short { at, wanted, left }| GgufProblem::Truncated { what: what.into(), at, wanted, left }
}

pub(super) fn capped(what: impl FnOnce() -> String, found: u64, cap: u64) -> Result<u64, GgufProblem> {
    if found > cap { Err(GgufProblem::OverCap { what: what(), found, cap }) } else { Ok(found) }
}

/// A length-prefixed string, borrowed from the file.
pub(super) fn read_str<'a>(
    cursor: &mut Cursor<'a>,
    cap: u64,
    what: impl Fn() -> String,
) -> Result<&'a str, GgufProblem> {
    let short = |short: Short| truncated(what())(short);
    let length = cursor.u64().map_err(short)?;
    capped(|| format!("the length of {}", what()), length, cap)?;
    let bytes = cursor.take(length).map_err(short)?;
    std::str::from_utf8(bytes).map_err(|_| GgufProblem::NotUtf8 { what: what() })
}

fn read_type(cursor: &mut Cursor<'_>, key: &str) -> Result<MetaType, GgufProblem> {
    let id = cursor.u32().map_err(|short| in_key(key, short))?;
    MetaType::from_id(id).ok_or_else(|| GgufProblem::ValueType { key: key.into(), id })
}

fn in_key(key: &str, short: Short) -> GgufProblem {
    truncated(format!("metadata key {key:?}"))(short)
}

fn read_value(cursor: &mut Cursor<'_>, key: &str, meta_type: MetaType) -> Result<MetaValue, GgufProblem> {
    if meta_type == MetaType::Array {
        return read_array(cursor, key, 1).map(MetaValue::Array);
    }
    if meta_type == MetaType::String {
        let string = read_str(cursor, limits::MAX_STRING_BYTES, || format!("metadata key {key:?}"))?;
        return Ok(MetaValue::String(string.into()));
    }
    macro_rules! number {
        ($variant:ident, $from:expr) => {
            MetaValue::$variant($from(cursor.array().map_err(|short| in_key(key, short))?))
        };
    }
    Ok(match meta_type {
        MetaType::U8 => number!(U8, u8::from_le_bytes),
        MetaType::I8 => number!(I8, i8::from_le_bytes),
        MetaType::U16 => number!(U16, u16::from_le_bytes),
        MetaType::I16 => number!(I16, i16::from_le_bytes),
        MetaType::U32 => number!(U32, u32::from_le_bytes),
        MetaType::I32 => number!(I32, i32::from_le_bytes),
        MetaType::F32 => number!(F32, f32::from_le_bytes),
        MetaType::U64 => number!(U64, u64::from_le_bytes),
        MetaType::I64 => number!(I64, i64::from_le_bytes),
        MetaType::F64 => number!(F64, f64::from_le_bytes),
        MetaType::Bool | MetaType::String | MetaType::Array => {
            let [byte] = cursor.array().map_err(|short| in_key(key, short))?;
            MetaValue::Bool(read_bool(key, byte)?)
        }
    })
}

fn read_bool(key: &str, byte: u8) -> Result<bool, GgufProblem> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        found => Err(GgufProblem::Bool { key: key.into(), found }),
    }
}

fn read_array(cursor: &mut Cursor<'_>, key: &str, depth: u32) -> Result<MetaArray, GgufProblem> {
    let depth_what = || format!("the array depth of metadata key {key:?}");
    capped(depth_what, depth.into(), limits::MAX_ARRAY_DEPTH.into())?;
    let element = read_type(cursor, key)?;
    let count = cursor.u64().map_err(|short| in_key(key, short))?;
    let cap = if element == MetaType::Array { limits::MAX_NESTED_ARRAYS } else { limits::MAX_ARRAY_LEN };
    capped(|| format!("the array length of metadata key {key:?}"), count, cap)?;
    // Under the cap, so the product cannot overflow; what is not in the file is never allocated.
    let wanted = count * element.min_bytes();
    if wanted > cursor.left() {
        return Err(in_key(key, Short { at: cursor.at(), wanted, left: cursor.left() }));
    }
    macro_rules! numbers {
        ($variant:ident, $number:ty) => {{
            let bytes = cursor.take(wanted).map_err(|short| in_key(key, short))?;
            let (chunks, _) = bytes.as_chunks::<{ size_of::<$number>() }>();
            MetaArray::$variant(chunks.iter().map(|chunk| <$number>::from_le_bytes(*chunk)).collect())
        }};
    }
    Ok(match element {
        MetaType::U8 => numbers!(U8, u8),
        MetaType::I8 => numbers!(I8, i8),
        MetaType::U16 => numbers!(U16, u16),
        MetaType::I16 => numbers!(I16, i16),
        MetaType::U32 => numbers!(U32, u32),
        MetaType::I32 => numbers!(I32, i32),
        MetaType::F32 => numbers!(F32, f32),
        MetaType::U64 => numbers!(U64, u64),
        MetaType::I64 => numbers!(I64, i64),
        MetaType::F64 => numbers!(F64, f64),
        MetaType::Bool => {
            let bytes = cursor.take(wanted).map_err(|short| in_key(key, short))?;
            MetaArray::Bool(bytes.iter().map(|&byte| read_bool(key, byte)).collect::<Result<_, _>>()?)
        }
        MetaType::String => {
            let mut strings = StringArray::with_capacity(count as usize);
            for index in 0..count {
                let what = || format!("element {index} of metadata key {key:?}");
                strings.push(read_str(cursor, limits::MAX_STRING_BYTES, what)?);
            }
            MetaArray::String(strings)
        }
        MetaType::Array => {
            let arrays = (0..count).map(|_| read_array(cursor, key, depth + 1));
            MetaArray::Array(arrays.collect::<Result<_, _>>()?)
        }
    })
}
