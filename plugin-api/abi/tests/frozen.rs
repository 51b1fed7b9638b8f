//! Holds the ABI's types and its text together, and its layouts to what they were.
//!
//! `frozen.txt` records a digest of the type files, one of `ABI.md`, and the size and alignment of each
//! type that crosses. When one changes this fails: look at the others, write an entry in
//! `ABI_CHANGELOG.md`, and record what the failure prints.

use std::fmt::Write;
use std::path::Path;

use cajeta_abi::*;

/// FNV-1a over the bytes: a change detector, not a seal.
fn digest(seed: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(seed, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

const SEED: u64 = 0xcbf2_9ce4_8422_2325;

fn record() -> String {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(crate_dir.join("src"))
        .expect("src")
        .map(|entry| entry.expect("entry").path())
        .collect();
    files.sort();
    let types = files.iter().fold(SEED, |hash, file| digest(hash, &std::fs::read(file).expect("readable")));
    let text = digest(SEED, &std::fs::read(crate_dir.join("../ABI.md")).expect("ABI.md"));
    let mut out = format!("types {types:016x}\ntext {text:016x}\n");
    macro_rules! layouts {
        ($($type:ty),* $(,)?) => {$(
            let (size, align) = (size_of::<$type>(), align_of::<$type>());
            writeln!(out, "{} size {size} align {align}", stringify!($type)).expect("a string grows");
        )*};
    }
    layouts! {
        Identity, Interface, BackendV1, DeviceV1, HostInfo<'static>, MemInfo, DeviceFacts, Layout, Shape, Row, Step,
        ArgSpec, Need, ShapeGate, ReadyGate, Manifest, NativeOp, Problem, Geometry, BufferArg, Launch<'static>, Span,
        Text, ErrorBuf,
    }
    out
}

#[test]
fn types_text_and_layouts_change_together() {
    let frozen = include_str!("frozen.txt");
    let now = record();
    assert!(
        now == frozen,
        "the ABI changed: hold types, ABI.md and ABI_CHANGELOG.md against each other, then record:\n{now}"
    );
}
