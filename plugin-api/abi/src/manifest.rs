//! What the compiler measured about a row's code, per target.

use abi_stable::StableAbi;
use abi_stable::std_types::{RSlice, RStr};

use crate::ids::Access;

/// Facts of one kernel on one target. A fact is absent when its bit is clear;
/// absent prunes nothing.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct Manifest {
    /// Bits: see the constants of this type.
    pub present: u64,
    /// The code target it was built for.
    pub target: RStr<'static>,
    /// Hash of the code; changes when the code does.
    pub code_hash: [u8; 32],
    /// Compiler and version.
    pub compiler: RStr<'static>,
    /// Registers per thread.
    pub registers: u32,
    /// Spilled bytes per thread.
    pub spill_bytes: u32,
    /// Static shared bytes per block.
    pub static_shared: u32,
    /// Threads of the block the code was built for; 0 when any.
    pub pinned_block: u32,
    /// Declared launch ceiling in threads.
    pub max_threads: u32,
    /// Declared launch ceiling in waves.
    pub max_waves: u32,
    /// Wave width the body assumes.
    pub wave_width: u32,
    /// Blocks resident on one multiprocessor.
    pub resident_groups: u32,
    /// Block sizes that launch.
    pub feasible_blocks: RSlice<'static, u32>,
    /// Access mode of each buffer argument, in order.
    pub access: RSlice<'static, Access>,
    /// Native operations the code uses.
    pub native: RSlice<'static, NativeOp>,
    /// A declared, tracked condition (`unlowered: …`, `unbounded: …`); else empty.
    pub declared: RStr<'static>,
}

impl Manifest {
    /// `code_hash` holds.
    pub const CODE_HASH: u64 = 1 << 0;
    /// `registers` holds.
    pub const REGISTERS: u64 = 1 << 1;
    /// `spill_bytes` holds.
    pub const SPILL: u64 = 1 << 2;
    /// `static_shared` holds.
    pub const STATIC_SHARED: u64 = 1 << 3;
    /// `pinned_block` holds.
    pub const PINNED_BLOCK: u64 = 1 << 4;
    /// `max_threads` holds.
    pub const MAX_THREADS: u64 = 1 << 5;
    /// `max_waves` holds.
    pub const MAX_WAVES: u64 = 1 << 6;
    /// `wave_width` holds.
    pub const WAVE_WIDTH: u64 = 1 << 7;
    /// `resident_groups` holds.
    pub const RESIDENT_GROUPS: u64 = 1 << 8;

    /// Nothing measured.
    pub const fn none() -> Manifest {
        Manifest {
            present: 0,
            target: RStr::from_str(""),
            code_hash: [0; 32],
            compiler: RStr::from_str(""),
            registers: 0,
            spill_bytes: 0,
            static_shared: 0,
            pinned_block: 0,
            max_threads: 0,
            max_waves: 0,
            wave_width: 0,
            resident_groups: 0,
            feasible_blocks: RSlice::EMPTY,
            access: RSlice::EMPTY,
            native: RSlice::EMPTY,
            declared: RStr::from_str(""),
        }
    }
}

/// One native operation and the tier it lowered to.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Debug)]
pub struct NativeOp {
    /// `dot`, `matrix`, `bulk_copy`, `fma`, …
    pub operation: RStr<'static>,
    /// The instruction, for instance `vfmadd231ps zmm`.
    pub instruction: RStr<'static>,
    /// `native` or `software`.
    pub tier: RStr<'static>,
}
