//! The embedded device code and what the build measured of each kernel.

/// Machine code of one operation for one target.
pub(crate) struct Code {
    /// File it was compiled to, for messages.
    pub(crate) file: &'static str,
    /// Code target.
    pub(crate) target: &'static str,
    /// SHA-256 in hexadecimal.
    pub(crate) digest: &'static str,
    /// The object.
    pub(crate) bytes: &'static [u8],
}

/// One kernel of one target.
pub(crate) struct Kernel {
    /// Entry name.
    pub(crate) name: &'static str,
    /// Code target.
    pub(crate) target: &'static str,
    /// Index in [`CODES`].
    pub(crate) code: usize,
    /// Registers a thread.
    pub(crate) registers: u32,
    /// Bytes spilled a thread.
    pub(crate) spill_bytes: u32,
    /// Static shared bytes a block.
    pub(crate) static_shared: u32,
    /// Threads of the largest block.
    pub(crate) max_threads: u32,
    /// Whether it waits itself for the launch in front of it, and so may start before that one ends.
    pub(crate) waits: bool,
}

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// The kernel of a name for a target.
pub(crate) fn kernel(name: &str, target: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name == name && kernel.target == target)
}

/// Targets there is code for, for messages.
pub(crate) fn targets() -> String {
    let mut targets: Vec<&str> = CODES.iter().map(|code| code.target).collect();
    targets.sort_unstable();
    targets.dedup();
    targets.join(", ")
}

/// The 32 bytes of a digest in hexadecimal; zeros where it is none.
pub(crate) fn digest_bytes(hexadecimal: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(hexadecimal.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).unwrap_or("");
        *byte = u8::from_str_radix(pair, 16).unwrap_or(0);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_has_code_of_its_target() {
        assert!(!KERNELS.is_empty());
        for kernel in KERNELS {
            let code = &CODES[kernel.code];
            assert_eq!(code.target, kernel.target, "{}", kernel.name);
            assert!(code.bytes.starts_with(b"\x7fELF"), "{}", code.file);
            assert_eq!(kernel.spill_bytes, 0, "{}", kernel.name);
            assert!(kernel.max_threads > 0, "{}", kernel.name);
            assert_ne!(digest_bytes(code.digest), [0; 32]);
        }
    }
}
