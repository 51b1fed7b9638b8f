//! The one parameter of every kernel, laid out as `plugins/kernels/common/launch.h` says.

use cajeta_plugin_api::abi::SCALAR_BYTES_MAX;

/// Most arguments of a row.
pub(crate) const ARGS: usize = 12;
/// Words of scalars.
const SCALARS: usize = SCALAR_BYTES_MAX / 4;

/// A launch as the device reads it. Addresses are the device's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) arg: [u64; ARGS],
    pub(crate) bytes: [u64; ARGS],
    pub(crate) scratch: u64,
    pub(crate) semaphores: u64,
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) batch: u32,
    pub(crate) aux: u32,
    pub(crate) split: u32,
    pub(crate) scalars: [u32; SCALARS],
}

const _: () = assert!(size_of::<Block>() == 8 * (2 * ARGS + 2) + 4 * (6 + SCALARS));

impl Block {
    /// Nothing given.
    pub(crate) const EMPTY: Block = Block {
        arg: [0; ARGS],
        bytes: [0; ARGS],
        scratch: 0,
        semaphores: 0,
        m: 0,
        n: 0,
        k: 0,
        batch: 0,
        aux: 0,
        split: 1,
        scalars: [0; SCALARS],
    };

    /// Takes over the scalar bytes of a launch.
    pub(crate) fn set_scalars(&mut self, bytes: &[u8]) {
        for (word, bytes) in self.scalars.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
    }
}
