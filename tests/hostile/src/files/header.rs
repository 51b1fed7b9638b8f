//! Files whose first bytes are wrong, and files that end early.

use super::case::{Case, Finder};
use super::draft::Draft;
use super::whole::whole;

/// Other files, other versions, lying counts, and an end at each boundary.
pub(super) fn cases() -> Vec<Case> {
    let mut cases = vec![
        Case::unopened("empty", "", "the file is empty"),
        Case::unopened("short", "GG", "not a GGUF file"),
        Case::unopened("lfs-pointer", "version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        Case::unopened("web-page", "<!DOCTYPE html><html>", "web page"),
        Case::unopened("zip", "PK\x03\x04....", "PyTorch checkpoints"),
        Case::unopened("safetensors", "\x10\0\0\0\0\0\0\0{\"a\":1}", "safetensors"),
        Case::unopened("older", "tjgg\x03\0\0\0", "older GGML"),
        Case::unopened("big-endian", "GGUF\0\0\0\x03", "big-endian"),
        Case::unopened("zeros", vec![0; 4096], "not a GGUF file"),
    ];
    let mut changed = |name: &str, says: &str, change: &dyn Fn(&mut Draft)| {
        cases.push(Case::of(name, whole(), change, (Finder::Open, says)));
    };
    changed("version-1", "version 1", &|draft| draft.version = 1);
    changed("version-4", "version 4", &|draft| draft.version = 4);
    for count in [u64::MAX, 1 << 63, 1 << 32] {
        changed(&format!("{count}-tensors"), "the tensor count", &|draft| draft.tensor_count = Some(count));
        changed(&format!("{count}-keys"), "the key count", &|draft| draft.key_count = Some(count));
    }
    changed("more-tensors-than-there-are", "tensor number 11", &|draft| draft.tensor_count = Some(12));
    changed("more-keys-than-there-are", "", &|draft| draft.key_count = Some(60_000));
    cases.extend(cuts());
    cases
}

/// The whole file cut at each place where one thing ends and the next begins, and one byte before.
fn cuts() -> Vec<Case> {
    let (bytes, mut places) = whole().pieces();
    places.sort_unstable();
    places.dedup();
    let lengths = places.iter().flat_map(|place| [place.saturating_sub(1), *place]);
    let mut lengths: Vec<usize> = lengths.filter(|length| *length < bytes.len()).collect();
    lengths.dedup();
    let cut = |length: usize| Case::unopened(&format!("cut-to-{length}"), &bytes[..length], "");
    lengths.into_iter().map(cut).collect()
}
