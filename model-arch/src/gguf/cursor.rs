//! A bounded reader over the file's bytes: every read either fits or says by how much it does not.

/// A read that ran past the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short {
    pub(super) at: u64,
    pub(super) wanted: u64,
    pub(super) left: u64,
}

pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    /// Bytes consumed so far.
    pub(super) fn at(&self) -> u64 {
        self.at as u64
    }

    /// Bytes not consumed yet.
    pub(super) fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    pub(super) fn take(&mut self, wanted: u64) -> Result<&'a [u8], Short> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let taken = usize::try_from(wanted).ok().and_then(|n| rest.get(..n));
        let taken = taken.ok_or(Short { at: self.at(), wanted, left: rest.len() as u64 })?;
        self.at += taken.len();
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        let short = Short { at: self.at(), wanted: N as u64, left: self.left() };
        self.take(N as u64)?.first_chunk::<N>().copied().ok_or(short)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Short> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Short> {
        self.array().map(u64::from_le_bytes)
    }
}
