//! A GGUF file as it is going to be written, with nothing checked.

/// What a file says and holds. Offsets and counts are written as they are.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The first four bytes.
    pub magic: [u8; 4],
    /// The format version.
    pub version: u32,
    /// The number of tensors, when the file lies about it.
    pub tensor_count: Option<u64>,
    /// The number of keys, when the file lies about it.
    pub key_count: Option<u64>,
    /// The metadata.
    pub keys: Vec<Key>,
    /// The tensor table.
    pub tensors: Vec<TensorDraft>,
    /// What the data section begins at a multiple of.
    pub alignment: usize,
    /// The data section.
    pub data: Vec<u8>,
}

/// A key and its value, as bytes.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name.
    pub name: Vec<u8>,
    /// The type's number and the value: see [`value`].
    pub value: Vec<u8>,
}

/// A line of the tensor table.
#[derive(Clone, Debug)]
pub struct TensorDraft {
    /// Its name.
    pub name: String,
    /// Its shape, innermost first.
    pub dims: Vec<u64>,
    /// The number of its format.
    pub format: u32,
    /// Where its data begins in the data section.
    pub offset: u64,
}

impl Draft {
    /// The key's value.
    ///
    /// # Panics
    /// When there is no such key: a case about it would test nothing.
    pub fn key(&mut self, name: &str) -> &mut Key {
        let found = self.keys.iter_mut().find(|key| key.name == name.as_bytes());
        found.unwrap_or_else(|| panic!("the draft has no key {name}"))
    }

    /// Sets a key, replacing its value if it is there.
    pub fn set(&mut self, name: &str, value: Vec<u8>) {
        match self.keys.iter_mut().find(|key| key.name == name.as_bytes()) {
            Some(key) => key.value = value,
            None => self.keys.push(Key { name: name.into(), value }),
        }
    }

    /// Takes a key out.
    pub fn remove(&mut self, name: &str) {
        self.key(name);
        self.keys.retain(|key| key.name != name.as_bytes());
    }

    /// The line of a tensor.
    ///
    /// # Panics
    /// When there is no such tensor.
    pub fn tensor(&mut self, name: &str) -> &mut TensorDraft {
        let found = self.tensors.iter_mut().find(|tensor| tensor.name == name);
        found.unwrap_or_else(|| panic!("the draft has no tensor {name}"))
    }

    /// The file, and every place in it where one thing ends and the next begins.
    pub fn pieces(&self) -> (Vec<u8>, Vec<usize>) {
        let mut file = Pieces::default();
        file.put(&self.magic);
        file.put(&self.version.to_le_bytes());
        file.put(&self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        file.put(&self.key_count.unwrap_or(self.keys.len() as u64).to_le_bytes());
        for key in &self.keys {
            file.put(&(key.name.len() as u64).to_le_bytes());
            file.put(&key.name);
            let (kind, rest) = key.value.split_at(4.min(key.value.len()));
            file.put(kind);
            // An array's element type and length.
            let (head, rest) =
                if kind == value::ARRAY { rest.split_at(12.min(rest.len())) } else { (&[][..], rest) };
            file.put(head);
            file.put(rest);
        }
        for tensor in &self.tensors {
            file.put(&(tensor.name.len() as u64).to_le_bytes());
            file.put(tensor.name.as_bytes());
            file.put(&(tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| file.put(&dim.to_le_bytes()));
            file.put(&tensor.format.to_le_bytes());
            file.put(&tensor.offset.to_le_bytes());
        }
        let start = file.bytes.len().next_multiple_of(self.alignment);
        file.put(&vec![0; start - file.bytes.len()]);
        file.put(&self.data);
        let offsets = self.tensors.iter().filter_map(|tensor| usize::try_from(tensor.offset).ok());
        file.ends.extend(offsets.filter(|offset| *offset < self.data.len()).map(|offset| start + offset));
        (file.bytes, file.ends)
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        self.pieces().0
    }
}

#[derive(Default)]
struct Pieces {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Pieces {
    fn put(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        self.ends.push(self.bytes.len());
    }
}

/// Values of metadata as the file writes them: the type's number, then the value.
pub mod value {
    /// The type of arrays.
    pub(super) const ARRAY: [u8; 4] = [9, 0, 0, 0];

    /// A value of the type with that number.
    pub fn raw(kind: u32, bytes: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes()[..], bytes].concat()
    }

    /// A u32.
    pub fn u32(number: u32) -> Vec<u8> {
        raw(4, &number.to_le_bytes())
    }

    /// An i32.
    pub fn i32(number: i32) -> Vec<u8> {
        raw(5, &number.to_le_bytes())
    }

    /// An f32.
    pub fn f32(number: f32) -> Vec<u8> {
        raw(6, &number.to_le_bytes())
    }

    /// A bool, as that byte.
    pub fn bool(byte: u8) -> Vec<u8> {
        raw(7, &[byte])
    }

    /// A string of any bytes.
    pub fn string(bytes: impl AsRef<[u8]>) -> Vec<u8> {
        raw(8, &prefixed(bytes.as_ref()))
    }

    /// An array that claims that element type and count, and has these bytes.
    pub fn array(element: u32, count: u64, bytes: &[u8]) -> Vec<u8> {
        raw(9, &[&element.to_le_bytes()[..], &count.to_le_bytes(), bytes].concat())
    }

    /// An array of strings of any bytes.
    pub fn strings<S: AsRef<[u8]>>(strings: &[S]) -> Vec<u8> {
        let bytes: Vec<u8> = strings.iter().flat_map(|string| prefixed(string.as_ref())).collect();
        array(8, strings.len() as u64, &bytes)
    }

    /// An array of i32.
    pub fn i32s(numbers: &[i32]) -> Vec<u8> {
        array(5, numbers.len() as u64, &numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// An array of f32.
    pub fn f32s(numbers: &[f32]) -> Vec<u8> {
        array(6, numbers.len() as u64, &numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>())
    }

    fn prefixed(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat()
    }
}
