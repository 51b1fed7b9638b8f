//! The device planes: one for K and one for V per layer, all blocks of a layer in each.

use cajeta_abi::{Fact, MemoryKind};
use cajeta_catalog::kv::block_bytes;
use cajeta_model_arch::plan::{Half, KvShape};
use cajeta_plugin_host::{BufferSpan, Device, DeviceError};
use thiserror::Error;

/// Why the planes could not be had.
#[derive(Debug, Error)]
pub enum KvPoolError {
    /// One plane is larger than anything the device binds.
    #[error(
        "a K/V plane takes {bytes} bytes and the largest buffer `{device}` binds has {limit}; lower --ctx"
    )]
    LargestBinding {
        /// Bytes of one plane.
        bytes: u64,
        /// Bytes of the largest binding.
        limit: u64,
        /// The device's name.
        device: String,
    },
    /// An allocation failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The planes of every layer.
pub struct KvPool {
    planes: Vec<[BufferSpan; 2]>,
}

impl KvPool {
    /// Bytes the planes of `n_blocks` blocks take.
    pub fn bytes(shapes: &[KvShape], n_blocks: u32) -> u64 {
        let planes = shapes.iter().map(|shape| plane_bytes(shape, n_blocks).saturating_mul(2));
        planes.fold(0, u64::saturating_add)
    }

    /// Allocates the planes of `n_blocks` blocks.
    ///
    /// # Errors
    /// A plane is larger than the device binds, or the device has no memory for it.
    pub fn new(
        device: &Device,
        shapes: &[KvShape],
        n_blocks: u32,
        poison: bool,
    ) -> Result<KvPool, KvPoolError> {
        let limit = device.facts().get(Fact::LARGEST_BINDING).unwrap_or(u64::MAX);
        let mut planes = Vec::with_capacity(shapes.len());
        for shape in shapes {
            let bytes = plane_bytes(shape, n_blocks);
            if bytes > limit {
                let device = device.facts().name.to_string();
                return Err(KvPoolError::LargestBinding { bytes, limit, device });
            }
            let plane = || device.alloc(bytes, MemoryKind::DEVICE, poison).map(|buffer| buffer.whole());
            planes.push([plane()?, plane()?]);
        }
        Ok(KvPool { planes })
    }

    /// A layer's plane.
    pub fn plane(&self, layer: u32, half: Half) -> Option<&BufferSpan> {
        self.planes.get(layer as usize).map(|[k, v]| match half {
            Half::K => k,
            Half::V => v,
        })
    }
}

fn plane_bytes(shape: &KvShape, n_blocks: u32) -> u64 {
    block_bytes(shape.n_head_kv, shape.head_dim).saturating_mul(u64::from(n_blocks))
}
