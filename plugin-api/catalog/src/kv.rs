//! The paged K and V planes in their default layout, [`cajeta_abi::LayoutId::KV_F16`].
//!
//! One plane per layer for K and one for V, each `[block][kv_head][16][head_dim]`
//! of f16. Block `b` starts at `b * block_bytes`. A sequence's block table lists
//! the physical block of each 16 positions: position `p` of sequence `s` is in
//! block `table[s * max_blocks + p / 16]`, at slot `p % 16`.

/// Positions in a block.
pub const BLOCK_POSITIONS: u32 = 16;

/// Elements of one block of one plane.
pub const fn block_elements(n_head_kv: u32, head_dim: u32) -> u64 {
    n_head_kv as u64 * BLOCK_POSITIONS as u64 * head_dim as u64
}

/// Bytes of one block of one plane.
pub const fn block_bytes(n_head_kv: u32, head_dim: u32) -> u64 {
    block_elements(n_head_kv, head_dim) * 2
}

/// Index of the first element of (physical block, head, slot) in a plane.
pub const fn element(block: u32, head: u32, slot: u32, n_head_kv: u32, head_dim: u32) -> u64 {
    block as u64 * block_elements(n_head_kv, head_dim)
        + (head as u64 * BLOCK_POSITIONS as u64 + slot as u64) * head_dim as u64
}
