//! What the writer writes is read back; random damage to it never crashes the reader. Damage of each kind
//! there is, with what is said of it, is in `tests/hostile` and held by `tests/hostile.rs` of this crate.

use super::error::GgufProblem;
use super::file::Contents;
use super::writer::Header;
use super::{GgufFile, MetaArray, MetaValue, StringArray};
use cajeta_catalog::quant::Format;
use proptest::prelude::*;
use std::path::Path;

/// A small file with a value of every kind and three tensors.
fn sample() -> Vec<u8> {
    let mut header = Header::new();
    header.set("general.architecture", "llama");
    header.set("a.u32", 7u32);
    header.set("a.i64", MetaValue::I64(-9));
    header.set("a.f32", 1.5f32);
    header.set("a.bool", true);
    header.set("a.words", ["one", "", "drei"].into_iter().collect::<StringArray>());
    header.set("a.nested", MetaArray::Array(vec![MetaArray::U8(vec![1, 2]), MetaArray::Bool(vec![true])]));
    header.set("a.numbers", vec![1i32, -2, 3]);
    header.tensor("first", &[32, 3], Format::Q8_0).unwrap();
    header.tensor("second", &[5], Format::F32).unwrap();
    header.tensor("third", &[256, 2, 2], Format::Q4_K).unwrap();
    let mut writer = header.begin(Vec::new()).unwrap();
    let bytes: Vec<u8> = (0..102 + 20 + 4 * 144).map(|i| i as u8).collect();
    writer.write(&bytes[..50]).unwrap();
    writer.write(&bytes[50..]).unwrap();
    writer.finish().unwrap()
}

fn parse(bytes: &[u8]) -> Result<Contents, GgufProblem> {
    Contents::parse(Path::new("sample.gguf"), bytes)
}

#[test]
fn what_was_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.gguf");
    std::fs::write(&path, sample()).unwrap();
    let file = GgufFile::open(&path).unwrap();
    let metadata = file.metadata();
    assert_eq!((file.version(), metadata.iter().len()), (3, 8));
    assert_eq!(metadata.require_str("general.architecture").unwrap(), "llama");
    assert_eq!((metadata.u32("a.u32").unwrap(), metadata.f32("a.f32").unwrap()), (Some(7), Some(1.5)));
    assert_eq!(metadata.require_strings("a.words").unwrap().iter().collect::<Vec<_>>(), ["one", "", "drei"]);
    assert_eq!(metadata.require_i32s("a.numbers").unwrap(), [1, -2, 3]);
    assert!(metadata.require_bool("a.bool").unwrap());
    assert!(matches!(metadata.get("a.nested"), Some(MetaValue::Array(MetaArray::Array(a))) if a.len() == 2));
    let wrong = metadata.u32("a.words").unwrap_err().to_string();
    assert!(wrong.contains("sample.gguf") && wrong.contains("expected an integer, got an array"), "{wrong}");
    assert!(metadata.u32("a.i64").unwrap_err().to_string().contains("got -9"));
    assert!(metadata.require_str("a.none").unwrap_err().to_string().contains("\"a.none\" is missing"));
    let names: Vec<_> = file.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["first", "second", "third"]);
    let third = file.tensor("third").unwrap();
    assert_eq!((third.row_len(), third.n_rows(), third.bytes, third.offset % 32), (256, 4, 576, 0));
    assert_eq!(file.data(third)[..3], [122, 123, 124]);
    assert_eq!(file.data(file.tensor("second").unwrap())[0], 102);
}

#[test]
fn what_is_no_file_is_told_apart() {
    let missing = GgufFile::open(Path::new("no/such/model.gguf")).unwrap_err().to_string();
    assert!(missing.starts_with("no/such/model.gguf: cannot open the model file"), "{missing}");
    assert!(GgufFile::open(Path::new(".")).unwrap_err().to_string().contains("a directory"));
    assert!(parse(b"").is_err());
}

#[test]
fn alignment_must_be_a_sane_power_of_two() {
    for (alignment, fine) in [(0u32, false), (1, true), (24, false), (4096, true), (1 << 31, false)] {
        let mut header = Header::new();
        header.set("general.alignment", alignment);
        let bytes = header.begin(Vec::new()).unwrap().finish().unwrap();
        assert_eq!(parse(&bytes).is_ok(), fine, "alignment {alignment}");
    }
    let mut header = Header::new();
    header.tensor("t", &[1], Format::F32).unwrap();
    assert!(header.tensor("t", &[1], Format::F32).is_err());
    let mut header = Header::new();
    header.align(4096).unwrap();
    header.tensor("t", &[3], Format::F32).unwrap();
    let mut writer = header.begin(Vec::new()).unwrap();
    writer.write(&[1; 12]).unwrap();
    let bytes = writer.finish().unwrap();
    assert_eq!(bytes.len(), 8192);
    assert!(parse(&bytes).is_ok());
}

#[test]
fn writer_refuses_data_that_does_not_match() {
    let start = || {
        let mut header = Header::new();
        header.tensor("t", &[2], Format::F32).unwrap();
        header.begin(Vec::new()).unwrap()
    };
    assert!(start().write(&[0; 9]).unwrap_err().to_string().contains("1 more bytes"));
    let mut writer = start();
    writer.write(&[0; 3]).unwrap();
    assert!(writer.finish().unwrap_err().to_string().contains("\"t\" still lacks 5 bytes"));
    assert!(start().finish().unwrap_err().to_string().contains("\"t\" still lacks 8 bytes"));
}

#[test]
fn a_large_vocabulary_is_read_quickly() {
    let mut header = Header::new();
    header.set("tokens", (0..262_144).map(|i| format!("Ġtoken{i}")).collect::<StringArray>());
    let bytes = header.begin(Vec::new()).unwrap().finish().unwrap();
    let start = std::time::Instant::now();
    assert!(parse(&bytes).is_ok());
    let took = start.elapsed();
    // Some 5 ms on one idle core; the bound leaves room for a loaded machine.
    assert!(took.as_millis() < 100, "reading 262,144 strings took {took:?}");
}

#[test]
fn every_truncation_is_refused() {
    let bytes = sample();
    // The last tensor ends on the alignment, so there is no padding that could be missing harmlessly.
    for length in 0..bytes.len() {
        assert!(parse(&bytes[..length]).is_err(), "cut to {length} of {} bytes", bytes.len());
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let _ = parse(&[b"GGUF\x03\0\0\0", &bytes[..]].concat());
        let counts = [&b"GGUF\x03\0\0\0"[..], &1u64.to_le_bytes(), &1u64.to_le_bytes(), &bytes].concat();
        let _ = parse(&counts);
    }

    #[test]
    fn damaged_files_never_panic_and_tensors_stay_inside(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = sample();
        // Most of the file is tensor data, where damage is not noticed; aim at the header.
        let header = bytes.len() - 740;
        for (place, bit) in flips {
            bytes[place.index(header)] ^= 1 << bit;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(contents) = parse(&bytes) {
            for tensor in contents.tensors() {
                prop_assert!(tensor.offset <= bytes.len() as u64);
                prop_assert!(tensor.bytes <= bytes.len() as u64 - tensor.offset);
            }
        }
    }
}
