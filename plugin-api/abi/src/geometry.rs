//! The size of a problem and the launch shape a row derives from it.

use abi_stable::StableAbi;

/// The size of one launch. The catalog says what each letter means per op; for
/// a projection M activation rows, N output features, K input features.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Problem {
    /// Activation rows.
    pub m: u64,
    /// Output width.
    pub n: u64,
    /// Input width, or the context bucket of attention.
    pub k: u64,
    /// Independent problems: sequences, experts.
    pub batch: u64,
    /// One more size where an op has one.
    pub aux: u64,
}

/// What a launch of a row at a problem takes. A pure answer: `list` uses the
/// same function, so host and plugin cannot disagree.
#[repr(C)]
#[derive(StableAbi, Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads per block.
    pub block: [u32; 3],
    /// Blocks per cluster.
    pub cluster: [u32; 3],
    /// Shared bytes fixed in the code.
    pub static_shared: u32,
    /// Shared bytes asked for at launch.
    pub dynamic_shared: u32,
    /// Bytes of the scratch buffer a launch needs; contents undefined before.
    pub scratch_bytes: u64,
    /// Bytes of the semaphore buffer; zero before the first launch, left zero.
    pub semaphore_bytes: u64,
    /// Fewest parts the reduction may be split in.
    pub split_min: u32,
    /// Most parts the reduction may be split in.
    pub split_max: u32,
    /// 1 when all blocks must be resident together.
    pub coresident: u32,
}
