//! An open GGUF file: the mapping, the header, and what the sections said.

use super::cursor::Cursor;
use super::error::{GgufError, GgufProblem};
use super::limits;
use super::mapped;
use super::metadata::{Metadata, capped, truncated};
use super::tensor::{TensorInfo, TensorTable};
use memmap2::{Mmap, MmapMut};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A GGUF file, mapped read-only and fully checked.
///
/// Metadata and tensor descriptions are copied out when the file is opened; only tensor bytes are
/// read from the mapping later. If another process cuts the file short meanwhile, reading the lost
/// part raises SIGBUS, as with any mapped file; [`mapped::at`] tells a handler whose page it was.
#[derive(Debug)]
pub struct GgufFile {
    path: PathBuf,
    map: Arc<Mmap>,
    contents: Contents,
}

/// What the bytes of a file say, apart from the tensors' values.
#[derive(Debug)]
pub(super) struct Contents {
    version: u32,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    positions: HashMap<Box<str>, usize>,
}

impl GgufFile {
    /// Maps and checks the file at `path`.
    ///
    /// # Errors
    /// When it cannot be opened or mapped, is not a little-endian GGUF file of version 2 or 3, or
    /// anything in it is damaged, absurd, duplicated or outside the file.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let error = |problem| GgufError::new(path, problem);
        // Asked before opening, because opening a pipe would wait for its writer.
        let kind = std::fs::metadata(path).map_err(|io| error(GgufProblem::Open(io)))?.file_type();
        if kind.is_dir() {
            return Err(error(GgufProblem::NotAFile("a directory")));
        }
        if !kind.is_file() {
            return Err(error(GgufProblem::NotAFile("a device, pipe or socket")));
        }
        let file = File::open(path).map_err(|io| error(GgufProblem::Open(io)))?;
        // SAFETY: the mapping is private and read-only, its length was taken from the file itself, and
        // it lives in the returned value, which hands out borrows only. The bytes are plain data valid
        // for any contents, and everything whose validity matters (lengths, offsets, UTF-8) is copied
        // out and checked once below rather than read twice, so a concurrent writer can change values
        // but cannot break a bound; a concurrent truncation raises SIGBUS instead of misreading.
        let map = unsafe { Mmap::map(&file) }.map_err(|io| error(GgufProblem::Map(io)))?;
        let map = Arc::new(map);
        // Before anything is read: the file may be cut at any time.
        mapped::register(&map, path);
        let contents = Contents::parse(path, &map).map_err(error);
        let contents = contents.inspect_err(|_| mapped::forget(&map))?;
        Ok(GgufFile { path: path.to_path_buf(), map, contents })
    }

    /// Checks a file that was made or received in memory; `name` stands for its path in errors.
    ///
    /// # Errors
    /// As [`open`](Self::open), or when there is no memory for a copy.
    pub fn from_bytes(name: &Path, bytes: &[u8]) -> Result<Self, GgufError> {
        let error = |problem| GgufError::new(name, problem);
        // A copy in pages of its own, so that whoever reads a file's pages in place can read these.
        let mut pages = MmapMut::map_anon(bytes.len()).map_err(|io| error(GgufProblem::Map(io)))?;
        pages.copy_from_slice(bytes);
        let map = pages.make_read_only().map_err(|io| error(GgufProblem::Map(io)))?;
        let contents = Contents::parse(name, &map).map_err(error)?;
        Ok(GgufFile { path: name.to_path_buf(), map: Arc::new(map), contents })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format version, 2 or 3.
    pub fn version(&self) -> u32 {
        self.contents.version
    }

    /// Its keys and values.
    pub fn metadata(&self) -> &Metadata {
        &self.contents.metadata
    }

    /// Its tensors in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.contents.tensors
    }

    /// The tensor called `name`.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.contents.positions.get(name).and_then(|&position| self.contents.tensors.get(position))
    }

    /// The bytes of a tensor of this file; empty for a description whose range this file lacks.
    pub fn data(&self, tensor: &TensorInfo) -> &[u8] {
        range(&self.map, tensor.offset, tensor.bytes).unwrap_or_default()
    }

    /// The whole mapping.
    pub fn map(&self) -> &[u8] {
        &self.map
    }

    /// The whole mapping, to be kept alive by whoever reads the file's pages in place.
    pub fn pages(&self) -> Arc<Mmap> {
        Arc::clone(&self.map)
    }
}

impl Drop for GgufFile {
    fn drop(&mut self) {
        mapped::forget(&self.map);
    }
}

fn range(bytes: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let (offset, length) = (usize::try_from(offset).ok()?, usize::try_from(length).ok()?);
    bytes.get(offset..)?.get(..length)
}

impl Contents {
    #[cfg(test)]
    pub(super) fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Reads and checks everything but the tensors' values.
    pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Self, GgufProblem> {
        let mut cursor = Cursor::new(bytes);
        let version = read_version(&mut cursor, bytes)?;
        let n_tensors = cursor.u64().map_err(truncated("the tensor count"))?;
        let n_keys = cursor.u64().map_err(truncated("the key count"))?;
        capped(|| "the tensor count".into(), n_tensors, limits::MAX_TENSORS)?;
        capped(|| "the key count".into(), n_keys, limits::MAX_KEYS)?;
        let metadata = Metadata::parse(path, &mut cursor, n_keys)?;
        let alignment = read_alignment(&metadata)?;
        let mut table = TensorTable::parse(&mut cursor, n_tensors)?;
        if !table.tensors.is_empty() {
            // The cursor is within the file and the alignment at most 1 MiB, so this cannot overflow.
            let start = cursor.at().next_multiple_of(alignment.into());
            let available = (bytes.len() as u64).saturating_sub(start);
            table.place(start, available, alignment)?;
        }
        Ok(Contents { version, metadata, tensors: table.tensors, positions: table.positions })
    }
}

fn read_version(cursor: &mut Cursor<'_>, bytes: &[u8]) -> Result<u32, GgufProblem> {
    let magic: [u8; 4] = cursor.array().map_err(|_| not_gguf(bytes))?;
    match &magic {
        b"GGUF" => {}
        b"FUGG" => return Err(GgufProblem::BigEndian),
        _ => return Err(not_gguf(bytes)),
    }
    let version = cursor.u32().map_err(truncated("the format version"))?;
    match version {
        2 | 3 => Ok(version),
        1 => Err(GgufProblem::Version1),
        // A small number written by a big-endian machine.
        _ if version.trailing_zeros() >= 16 && version != 0 => Err(GgufProblem::BigEndian),
        _ => Err(GgufProblem::Version(version)),
    }
}

/// Says what the file looks like instead, since a wrong download is the usual cause.
fn not_gguf(bytes: &[u8]) -> GgufProblem {
    const SIGNS: [(&[u8], &str); 7] = [
        (b"version https://git-lfs", "this is a Git LFS pointer: fetch the file itself"),
        (b"<", "this looks like a web page: the download went wrong"),
        (b"PK\x03\x04", "this is a zip archive: PyTorch checkpoints must be converted to GGUF"),
        (b"lmgg", "this is an older GGML file: convert the model to GGUF"),
        (b"fmgg", "this is an older GGML file: convert the model to GGUF"),
        (b"tjgg", "this is an older GGML file: convert the model to GGUF"),
        (b"algg", "this is an adapter in an older GGML format, not a model"),
    ];
    let sign = SIGNS.iter().find(|(start, _)| bytes.starts_with(start)).map(|(_, hint)| *hint);
    let safetensors = bytes.get(8) == Some(&b'{');
    let hint = match sign {
        Some(hint) => hint,
        None if bytes.is_empty() => "the file is empty",
        None if safetensors => "this looks like safetensors: convert the model to GGUF",
        None => "is this the right file?",
    };
    let start = bytes.get(..4).unwrap_or(bytes);
    GgufProblem::NotGguf { found: start.escape_ascii().to_string(), hint }
}

fn read_alignment(metadata: &Metadata) -> Result<u32, GgufProblem> {
    let key = "general.alignment";
    let Some(value) = metadata.get(key) else { return Ok(limits::DEFAULT_ALIGNMENT) };
    let wrong =
        || GgufProblem::WrongType { key: key.into(), expected: "an integer", found: value.meta_type() };
    let integer = value.as_integer().ok_or_else(wrong)?;
    let fits = u32::try_from(integer).ok();
    let sane = fits.filter(|alignment| alignment.is_power_of_two() && *alignment <= limits::MAX_ALIGNMENT);
    sane.ok_or(GgufProblem::Alignment(u64::try_from(integer).unwrap_or(u64::MAX)))
}
