//! Facts of real devices, as their drivers give them, for the tests of this module and of those after it.

use cajeta_abi::{DeviceFacts, Fact, Geometry, Manifest, Text};

use super::{Candidate, Grain, KernelFacts};

fn device(name: &str, target: &str, facts: &[(Fact, u64)]) -> DeviceFacts {
    let mut device = DeviceFacts { name: Text::new(name), target: Text::new(target), ..DeviceFacts::NONE };
    facts.iter().for_each(|&(fact, value)| device.set(fact, value));
    device
}

/// RTX 4090: 128 multiprocessors; 48, 99 and 100 KB of shared memory.
pub(crate) fn rtx_4090() -> DeviceFacts {
    device(
        "RTX 4090",
        "sm_89",
        &[
            (Fact::MULTIPROCESSORS, 128),
            (Fact::SIMDS, 4),
            (Fact::WAVE, 32),
            (Fact::REGISTERS, 65536),
            (Fact::THREADS, 1536),
            (Fact::BLOCK_THREADS, 1024),
            (Fact::SHARED_BLOCK, 48 << 10),
            (Fact::SHARED_BLOCK_OPT_IN, 99 << 10),
            (Fact::SHARED_MULTIPROCESSOR, 100 << 10),
        ],
    )
}

/// gfx1151: 64 KB of shared memory a block, and no more by opting in.
pub(crate) fn gfx1151() -> DeviceFacts {
    device(
        "8060S",
        "gfx1151",
        &[
            (Fact::WAVE, 32),
            (Fact::BLOCK_THREADS, 1024),
            (Fact::SHARED_BLOCK, 64 << 10),
            (Fact::INTEGRATED, 1),
        ],
    )
}

/// H200: 132 multiprocessors; 48, 227 and 228 KB of shared memory.
pub(crate) fn h200() -> DeviceFacts {
    device(
        "H200",
        "sm_90a",
        &[
            (Fact::MULTIPROCESSORS, 132),
            (Fact::SIMDS, 4),
            (Fact::WAVE, 32),
            (Fact::REGISTERS, 65536),
            (Fact::THREADS, 2048),
            (Fact::BLOCK_THREADS, 1024),
            (Fact::SHARED_BLOCK, 48 << 10),
            (Fact::SHARED_BLOCK_OPT_IN, 227 << 10),
            (Fact::SHARED_MULTIPROCESSOR, 228 << 10),
        ],
    )
}

/// A processor: threads and lanes; no registers to count and no shared memory.
pub(crate) fn processor() -> DeviceFacts {
    device(
        "processor",
        "x86_64-avx512",
        &[
            (Fact::MULTIPROCESSORS, 16),
            (Fact::SIMDS, 1),
            (Fact::WAVE, 16),
            (Fact::THREADS, 1),
            (Fact::BLOCK_THREADS, 1),
            (Fact::DISPATCH_BLOCKS, 16),
            (Fact::INTEGRATED, 1),
        ],
    )
}

/// A square member of the tile family at a problem of `m` x `n`: `side` 128 takes 256 threads of 255
/// registers and 96 KB, `side` 64 takes 128 threads of 168 registers and 48 KB.
pub(crate) fn tile(row: usize, side: u64, m: u64, n: u64) -> Candidate {
    let (threads, registers, shared) = if side == 128 { (256, 255, 96 << 10) } else { (128, 168, 48 << 10) };
    let mut manifest = Manifest::none();
    manifest.present =
        Manifest::REGISTERS | Manifest::SPILL | Manifest::STATIC_SHARED | Manifest::MAX_THREADS;
    (manifest.registers, manifest.max_threads) = (registers, threads);
    let geometry = Geometry {
        grid: [m.div_ceil(side) as u32, n.div_ceil(side) as u32, 1],
        block: [threads, 1, 1],
        dynamic_shared: shared,
        split_min: 1,
        split_max: 8,
        ..Geometry::default()
    };
    Candidate {
        row,
        name: format!("q4kTcTile{side}"),
        kernel: KernelFacts::measured(Some(&manifest), &geometry),
        geometry,
        grain: Grain { m: Some(side), n: Some(side) },
    }
}
