//! The scalar block of each op: plain structs, little-endian, at most 128 bytes
//! for all the steps of a row together, each block padded to 8 bytes.

use bytemuck::{Pod, Zeroable};

use crate::op::Op;

/// Scalars of [`Op::Embed`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, PartialEq, Debug)]
pub struct EmbedScalars {
    /// Multiplies each row; 1 without the `SCALE` attribute.
    pub scale: f32,
    /// Zero.
    pub reserved: u32,
}

/// Scalars of [`Op::Norm`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, PartialEq, Debug)]
pub struct NormScalars {
    /// Added to the mean square.
    pub eps: f32,
    /// Added to the weight; 0 without the `NORM_OFFSET` attribute.
    pub offset: f32,
}

/// Scalars of [`Op::Matmul`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, PartialEq, Debug)]
pub struct MatmulScalars {
    /// The cap of the `SOFTCAP` attribute; 0 without it.
    pub softcap: f32,
    /// Zero.
    pub reserved: u32,
}

/// Scalars of [`Op::RopeAppend`].
///
/// The angle of frequency `i` at position `p` is
/// `p * freq_scale * base^(-2i/rope_dim) / factors[i]`; with `ROPE_YARN` it is
/// blended as the YaRN paper says between the ramp of `beta_fast`, `beta_slow`,
/// and sine and cosine are multiplied by `attn_factor`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, PartialEq, Debug)]
pub struct RopeAppendScalars {
    /// Query heads.
    pub n_head: u32,
    /// K/V heads.
    pub n_head_kv: u32,
    /// Elements per head.
    pub head_dim: u32,
    /// Elements rotated at the start of each head; even, at most `head_dim`.
    pub rope_dim: u32,
    /// Entries of one sequence's block table.
    pub max_blocks: u32,
    /// Trained context of YaRN; 0 without.
    pub original_context: u32,
    /// Frequency base.
    pub base: f32,
    /// Multiplies every angle.
    pub freq_scale: f32,
    /// Multiplies sine and cosine (YaRN); 1 without.
    pub attn_factor: f32,
    /// YaRN extrapolation mix; 0 without.
    pub ext_factor: f32,
    /// YaRN ramp.
    pub beta_fast: f32,
    /// YaRN ramp.
    pub beta_slow: f32,
}

/// Scalars of [`Op::Attention`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, PartialEq, Debug)]
pub struct AttentionScalars {
    /// Query heads.
    pub n_head: u32,
    /// K/V heads; divides `n_head`.
    pub n_head_kv: u32,
    /// Elements per head.
    pub head_dim: u32,
    /// Entries of one sequence's block table.
    pub max_blocks: u32,
    /// Multiplies the query-key products.
    pub scale: f32,
    /// The cap of the `SOFTCAP` attribute; 0 without it.
    pub softcap: f32,
    /// Positions a query sees including its own (`WINDOW`); 0 for all.
    pub window: u32,
    /// 1: a query sees no later position.
    pub causal: u32,
}

/// Scalars of [`Op::Glu`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, PartialEq, Debug)]
pub struct GluScalars {
    /// Zero; the activation is an attribute.
    pub reserved: [u32; 2],
}

/// Scalars of [`Op::Advance`].
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable, PartialEq, Debug)]
pub struct AdvanceScalars {
    /// Dimensions of the state: [`crate::state::StepLayout`].
    pub max_rows: u32,
    /// See [`crate::state::StepLayout`].
    pub max_seqs: u32,
    /// See [`crate::state::StepLayout`].
    pub max_blocks: u32,
    /// Zero.
    pub reserved: u32,
}

/// Bytes of an op's scalar block.
pub const fn scalar_bytes(op: Op) -> usize {
    match op {
        Op::Embed => size_of::<EmbedScalars>(),
        Op::Norm => size_of::<NormScalars>(),
        Op::Matmul => size_of::<MatmulScalars>(),
        Op::RopeAppend => size_of::<RopeAppendScalars>(),
        Op::Attention => size_of::<AttentionScalars>(),
        Op::Glu => size_of::<GluScalars>(),
        Op::Advance => size_of::<AdvanceScalars>(),
        Op::Pack | Op::Add | Op::Copy | Op::Argmax | Op::Sample | Op::Relayout => 0,
    }
}

/// Reads the scalar block of step `index` of a row's `ops`, from a launch's scalars.
///
/// `None` when the bytes are too few or `T` is not that op's block.
pub fn read_step<T: Pod>(ops: &[Op], index: usize, bytes: &[u8]) -> Option<T> {
    let start: usize = ops.get(..index)?.iter().map(|&op| scalar_bytes(op)).sum();
    let len = scalar_bytes(*ops.get(index)?);
    if len != size_of::<T>() {
        return None;
    }
    let block = bytes.get(start..start.checked_add(len)?)?;
    bytemuck::try_pod_read_unaligned(block).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_a_multiple_of_eight_bytes() {
        for op in Op::ALL {
            assert_eq!(scalar_bytes(op) % 8, 0, "{}", op.name());
        }
    }

    #[test]
    fn a_step_reads_its_own_block() {
        let norm = NormScalars { eps: 1e-5, offset: 0.0 };
        let matmul = MatmulScalars { softcap: 30.0, reserved: 0 };
        let bytes = [bytemuck::bytes_of(&norm), bytemuck::bytes_of(&matmul)].concat();
        let ops = [Op::Norm, Op::Matmul];
        assert_eq!(read_step::<NormScalars>(&ops, 0, &bytes), Some(norm));
        assert_eq!(read_step::<MatmulScalars>(&ops, 1, &bytes), Some(matmul));
        assert_eq!(read_step::<MatmulScalars>(&ops, 1, &bytes[..12]), None);
        assert_eq!(read_step::<AttentionScalars>(&ops, 1, &bytes), None);
    }
}
