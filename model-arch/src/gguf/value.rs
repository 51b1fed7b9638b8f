//! Metadata values: scalars, strings, and arrays stored without one allocation per element.

/// The type of a metadata value, numbered as the file numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum MetaType {
    U8 = 0,
    I8 = 1,
    U16 = 2,
    I16 = 3,
    U32 = 4,
    I32 = 5,
    F32 = 6,
    Bool = 7,
    String = 8,
    Array = 9,
    U64 = 10,
    I64 = 11,
    F64 = 12,
}

impl MetaType {
    /// The type with this number.
    pub fn from_id(id: u32) -> Option<MetaType> {
        use MetaType::*;
        [U8, I8, U16, I16, U32, I32, F32, Bool, String, Array, U64, I64, F64].get(id as usize).copied()
    }

    /// The fewest bytes one value of this type takes in a file, by which array lengths are bounded
    /// before anything is allocated.
    pub(super) fn min_bytes(self) -> u64 {
        use MetaType::*;
        match self {
            U8 | I8 | Bool => 1,
            U16 | I16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 | String => 8,
            Array => 12,
        }
    }
}

impl std::fmt::Display for MetaType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use MetaType::*;
        f.write_str(match self {
            U8 => "u8",
            I8 => "i8",
            U16 => "u16",
            I16 => "i16",
            U32 => "u32",
            I32 => "i32",
            F32 => "f32",
            Bool => "bool",
            String => "a string",
            Array => "an array",
            U64 => "u64",
            I64 => "i64",
            F64 => "f64",
        })
    }
}

/// One metadata value.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the types")]
pub enum MetaValue {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(Box<str>),
    Array(MetaArray),
    U64(u64),
    I64(i64),
    F64(f64),
}

impl MetaValue {
    /// The type of this value.
    pub fn meta_type(&self) -> MetaType {
        match self {
            MetaValue::U8(_) => MetaType::U8,
            MetaValue::I8(_) => MetaType::I8,
            MetaValue::U16(_) => MetaType::U16,
            MetaValue::I16(_) => MetaType::I16,
            MetaValue::U32(_) => MetaType::U32,
            MetaValue::I32(_) => MetaType::I32,
            MetaValue::F32(_) => MetaType::F32,
            MetaValue::Bool(_) => MetaType::Bool,
            MetaValue::String(_) => MetaType::String,
            MetaValue::Array(_) => MetaType::Array,
            MetaValue::U64(_) => MetaType::U64,
            MetaValue::I64(_) => MetaType::I64,
            MetaValue::F64(_) => MetaType::F64,
        }
    }

    /// The value as an integer, whichever integer type it has.
    pub fn as_integer(&self) -> Option<i128> {
        match *self {
            MetaValue::U8(v) => Some(v.into()),
            MetaValue::I8(v) => Some(v.into()),
            MetaValue::U16(v) => Some(v.into()),
            MetaValue::I16(v) => Some(v.into()),
            MetaValue::U32(v) => Some(v.into()),
            MetaValue::I32(v) => Some(v.into()),
            MetaValue::U64(v) => Some(v.into()),
            MetaValue::I64(v) => Some(v.into()),
            _ => None,
        }
    }
}

/// An array of one element type.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are the element types")]
pub enum MetaArray {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    String(StringArray),
    Array(Vec<MetaArray>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

impl MetaArray {
    /// The type of the elements.
    pub fn element_type(&self) -> MetaType {
        match self {
            MetaArray::U8(_) => MetaType::U8,
            MetaArray::I8(_) => MetaType::I8,
            MetaArray::U16(_) => MetaType::U16,
            MetaArray::I16(_) => MetaType::I16,
            MetaArray::U32(_) => MetaType::U32,
            MetaArray::I32(_) => MetaType::I32,
            MetaArray::F32(_) => MetaType::F32,
            MetaArray::Bool(_) => MetaType::Bool,
            MetaArray::String(_) => MetaType::String,
            MetaArray::Array(_) => MetaType::Array,
            MetaArray::U64(_) => MetaType::U64,
            MetaArray::I64(_) => MetaType::I64,
            MetaArray::F64(_) => MetaType::F64,
        }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            MetaArray::U8(v) => v.len(),
            MetaArray::I8(v) => v.len(),
            MetaArray::U16(v) => v.len(),
            MetaArray::I16(v) => v.len(),
            MetaArray::U32(v) => v.len(),
            MetaArray::I32(v) => v.len(),
            MetaArray::F32(v) => v.len(),
            MetaArray::Bool(v) => v.len(),
            MetaArray::String(v) => v.len(),
            MetaArray::Array(v) => v.len(),
            MetaArray::U64(v) => v.len(),
            MetaArray::I64(v) => v.len(),
            MetaArray::F64(v) => v.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Strings laid end to end in one allocation; a vocabulary is two allocations, not 262,144.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringArray {
    text: String,
    /// Where each string ends in `text`; always on a character boundary and never decreasing.
    ends: Vec<usize>,
}

impl StringArray {
    pub(super) fn with_capacity(strings: usize) -> Self {
        StringArray { text: String::new(), ends: Vec::with_capacity(strings) }
    }

    /// Appends one string.
    pub fn push(&mut self, string: &str) {
        self.text.push_str(string);
        self.ends.push(self.text.len());
    }

    /// The number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.text.get(start..end)
    }

    /// The strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + Clone {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }
}

impl<S: AsRef<str>> FromIterator<S> for StringArray {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut array = StringArray::default();
        for string in strings {
            array.push(string.as_ref());
        }
        array
    }
}

macro_rules! value_from {
    ($($from:ty => $variant:ident),*) => {
        $(impl From<$from> for MetaValue {
            fn from(value: $from) -> Self {
                MetaValue::$variant(value.into())
            }
        })*
    };
}
value_from! { u32 => U32, i32 => I32, f32 => F32, bool => Bool, u64 => U64, &str => String, String => String, MetaArray => Array }

macro_rules! array_from {
    ($($from:ty => $variant:ident),*) => {
        $(impl From<$from> for MetaValue {
            fn from(value: $from) -> Self {
                MetaValue::Array(MetaArray::$variant(value))
            }
        })*
    };
}
array_from! { Vec<u32> => U32, Vec<i32> => I32, Vec<f32> => F32, StringArray => String }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_keep_their_order_and_bounds() {
        let words: StringArray = ["", "héllo", "", "Ġworld"].into_iter().collect();
        assert_eq!(words.iter().collect::<Vec<_>>(), ["", "héllo", "", "Ġworld"]);
        assert_eq!((words.len(), words.get(1), words.get(4)), (4, Some("héllo"), None));
        assert!(StringArray::default().is_empty());
    }

    #[test]
    fn type_numbers_match_the_format() {
        for id in 0..13 {
            assert_eq!(MetaType::from_id(id).map(|t| t as u32), Some(id));
        }
        assert_eq!(MetaType::from_id(13), None);
    }
}
