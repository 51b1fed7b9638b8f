//! Manifests: what the build measured of each row's code.

use std::sync::OnceLock;

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_plugin_api::abi::{Access, Manifest};
use cajeta_plugin_api::{Answer, Fault};

use super::{entries, rows};
use crate::code::{self, CODES, COMPILER, Kernel};

/// Threads that run in step in this device code.
const WAVE: u32 = 32;
/// Registers and threads of a multiprocessor of the targets there is code for.
const MULTIPROCESSOR: (u32, u32) = (65_536, 2_048);
/// Most blocks of a multiprocessor.
const BLOCKS: u32 = 32;

/// The manifest of a row for a target.
///
/// # Errors
/// Unsupported when there is no code for the target.
pub(crate) fn manifest(row: usize, target: &str) -> Answer<Manifest> {
    static MANIFESTS: OnceLock<Vec<Vec<(&'static str, Manifest)>>> = OnceLock::new();
    let all = MANIFESTS.get_or_init(|| (0..rows().len()).map(build).collect());
    let of_row = all.get(row).ok_or_else(|| Fault::invalid(format!("row {row} does not exist")))?;
    let found = of_row.iter().find(|(known, _)| *known == target).map(|(_, manifest)| *manifest);
    found.ok_or_else(|| {
        Fault::unsupported(format!("no code for target `{target}`: this build has {}", code::targets()))
    })
}

/// The manifests of a row, one a target.
fn build(row: usize) -> Vec<(&'static str, Manifest)> {
    let Some((entry, spec)) = entries().get(row).zip(rows().get(row)) else { return Vec::new() };
    let access: Vec<Access> = spec.args.iter().map(|arg| arg.access).collect();
    let access = RSlice::from_slice(Vec::leak(access));
    let mut targets: Vec<&'static str> = CODES.iter().map(|code| code.target).collect();
    targets.sort_unstable();
    targets.dedup();
    let names = entry.kernels();
    targets
        .into_iter()
        .filter_map(|target| {
            let kernels: Option<Vec<&Kernel>> = names.iter().map(|name| code::kernel(name, target)).collect();
            Some((target, measured(&kernels?, target, access)?))
        })
        .collect()
}

/// The largest of each number over the kernels of a row; the code of the first.
fn measured(kernels: &[&Kernel], target: &'static str, access: RSlice<'static, Access>) -> Option<Manifest> {
    let first = kernels.first()?;
    let most = |of: fn(&Kernel) -> u32| kernels.iter().map(|kernel| of(kernel)).max().unwrap_or(0);
    let threads = most(|kernel| kernel.max_threads);
    let registers = most(|kernel| kernel.registers);
    // Registers are given out in eights.
    let by_registers = MULTIPROCESSOR.0 / (registers.next_multiple_of(8).max(8) * threads.max(1));
    let resident = by_registers.min(MULTIPROCESSOR.1 / threads.max(1)).min(BLOCKS);
    Some(Manifest {
        present: Manifest::CODE_HASH
            | Manifest::REGISTERS
            | Manifest::SPILL
            | Manifest::STATIC_SHARED
            | Manifest::PINNED_BLOCK
            | Manifest::MAX_THREADS
            | Manifest::WAVE_WIDTH
            | Manifest::RESIDENT_GROUPS,
        target: RStr::from_str(target),
        code_hash: code::digest_bytes(CODES.get(first.code)?.digest),
        compiler: RStr::from_str(COMPILER),
        registers,
        spill_bytes: most(|kernel| kernel.spill_bytes),
        static_shared: most(|kernel| kernel.static_shared),
        pinned_block: threads,
        max_threads: threads,
        wave_width: WAVE,
        resident_groups: resident,
        feasible_blocks: RSlice::from_slice(Vec::leak(vec![threads])),
        access,
        ..Manifest::none()
    })
}
