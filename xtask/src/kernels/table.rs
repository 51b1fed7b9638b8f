//! The table of kernels beside their code: one line a kernel, words apart by tabs.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Outcome};

/// What the build measured of one kernel for one target.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Kernel {
    /// Entry name.
    pub(super) name: String,
    /// Code target.
    pub(super) target: String,
    /// File of its code, beside the table.
    pub(super) code: String,
    /// SHA-256 of that file.
    pub(super) digest: String,
    /// Registers a thread.
    pub(super) registers: u32,
    /// Bytes spilled a thread.
    pub(super) spill_bytes: u32,
    /// Static shared bytes a block.
    pub(super) static_shared: u32,
    /// Threads of the largest block it declares; 0 when it declares none.
    pub(super) max_threads: u32,
    /// Whether it waits itself for the launch in front of it.
    pub(super) waits: bool,
}

/// Writes a table. Its first line says what it was made from, and by which compiler.
pub(super) fn write(path: &Path, stamp: &str, compiler: &str, kernels: &[Kernel]) -> Outcome<()> {
    let mut text = format!("{stamp}\t{compiler}\n");
    for k in kernels {
        text.push_str(&format!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
            k.name,
            k.target,
            k.code,
            k.digest,
            k.registers,
            k.spill_bytes,
            k.static_shared,
            k.max_threads,
            k.waits
        ));
    }
    fs::write(path, text).map_err(|error| Failure::file("write", path, &error))
}

/// The kernels of a table, if it is there, whole, and made from `stamp`.
pub(super) fn read(path: &Path, stamp: &str) -> Option<Vec<Kernel>> {
    let text = fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    if lines.next()?.split('\t').next()? != stamp {
        return None;
    }
    lines
        .map(|line| {
            let words: Vec<&str> = line.split('\t').collect();
            let [name, target, code, digest, registers, spill, shared, threads, waits] = words.as_slice()
            else {
                return None;
            };
            Some(Kernel {
                name: (*name).to_owned(),
                target: (*target).to_owned(),
                code: (*code).to_owned(),
                digest: (*digest).to_owned(),
                registers: registers.parse().ok()?,
                spill_bytes: spill.parse().ok()?,
                static_shared: shared.parse().ok()?,
                max_threads: threads.parse().ok()?,
                waits: waits.parse().ok()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_back_only_for_its_own_sources() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("kernels.tsv");
        let kernel = Kernel {
            name: "add".to_owned(),
            registers: 12,
            max_threads: 256,
            waits: true,
            ..Kernel::default()
        };
        write(&path, "aa", "nvcc", std::slice::from_ref(&kernel)).expect("written");
        assert_eq!(read(&path, "aa"), Some(vec![kernel]));
        assert_eq!(read(&path, "bb"), None);
        fs::write(&path, "aa\tnvcc\nadd\tsm").expect("written");
        assert_eq!(read(&path, "aa"), None);
    }
}
