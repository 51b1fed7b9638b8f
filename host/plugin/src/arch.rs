//! Whether a library is for this machine, from its first bytes, before anything maps it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::candidate::{Refusal, Stage};
use crate::manifest::PluginManifest;

/// Bytes of an ELF header that are looked at.
const HEADER: usize = 20;
const TYPE_SHARED: u16 = 3;

/// Holds the manifest and the library's own header against this machine.
///
/// # Errors
/// Stage arch: another machine or operating system, or a file that is not a shared library.
pub fn check(manifest: &PluginManifest, library: &Path) -> Result<(), Refusal> {
    let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
    if manifest.arch != arch || manifest.os != os {
        return Err(refusal(format!(
            "the manifest says {} on {}; this host is {arch} on {os}",
            manifest.arch, manifest.os
        )));
    }
    let mut header = [0; HEADER];
    let read = File::open(library).and_then(|mut file| file.read_exact(&mut header));
    if let Err(error) = read {
        return Err(refusal(format!("{} has no header: {error}", library.display())));
    }
    check_header(&header).map_err(|rule| refusal(format!("{} {rule}", library.display())))
}

fn refusal(reason: String) -> Refusal {
    Refusal::new(Stage::Arch, reason, "install the plugin's package for this machine")
}

fn check_header(header: &[u8; HEADER]) -> Result<(), String> {
    if cfg!(not(target_os = "linux")) {
        return Ok(());
    }
    if header[..4] != *b"\x7fELF" {
        return Err("is not an ELF file".into());
    }
    let (class, order) = (
        if cfg!(target_pointer_width = "64") { 2 } else { 1 },
        if cfg!(target_endian = "little") { 1 } else { 2 },
    );
    if header[4] != class || header[5] != order {
        return Err("has another word size or byte order".into());
    }
    let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    if word(16) != TYPE_SHARED {
        return Err("is not a shared library".into());
    }
    match machine() {
        Some((number, _)) if word(18) != number => {
            Err(format!("is for machine {}; this one is {}", machine_name(word(18)), machine_name(number)))
        }
        _ => Ok(()),
    }
}

/// ELF numbers of the machines the host knows, from the ELF specification.
const MACHINES: [(u16, &str); 6] =
    [(62, "x86_64"), (183, "aarch64"), (243, "riscv64"), (21, "powerpc64"), (22, "s390x"), (3, "x86")];

fn machine() -> Option<(u16, &'static str)> {
    MACHINES.into_iter().find(|(_, name)| *name == std::env::consts::ARCH)
}

fn machine_name(number: u16) -> String {
    let known = MACHINES.into_iter().find(|(known, _)| *known == number);
    known.map_or(format!("number {number}"), |(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_header() -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(b"\x7fELF");
        (header[4], header[5]) = (
            if cfg!(target_pointer_width = "64") { 2 } else { 1 },
            if cfg!(target_endian = "little") { 1 } else { 2 },
        );
        header[16..18].copy_from_slice(&TYPE_SHARED.to_ne_bytes());
        header[18..20].copy_from_slice(&machine().map_or(0, |(number, _)| number).to_ne_bytes());
        header
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn another_machine_and_other_files_are_refused() {
        assert_eq!(check_header(&own_header()), Ok(()));
        let change = |at: usize, value: u8| {
            let mut header = own_header();
            header[at] = value;
            check_header(&header).unwrap_err()
        };
        assert!(change(0, 0).contains("not an ELF"));
        assert!(change(4, 7).contains("word size"));
        assert!(change(16, 2).contains("not a shared library"));
        assert!(change(18, 243).contains("is for machine"));
    }
}
