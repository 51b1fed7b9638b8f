//! Page-locked memory for small transfers: lent out, given back, kept for the next.
//!
//! A copy to or from ordinary memory makes the driver wait; from here it does not. Pieces are powers of two.

use std::sync::{Arc, Mutex, PoisonError};

use cajeta_plugin_api::Answer;

use crate::driver::{Context, PinnedMemory};

/// The smallest piece.
const SMALLEST: usize = 4096;
/// The largest transfer that goes through here; longer ones are worth the driver's own way.
pub(super) const LARGEST: u64 = 4 << 20;
/// Pieces kept for the next transfer.
const KEPT: usize = 32;

/// The pieces of one device.
pub(super) struct Staging {
    context: Arc<Context>,
    free: Mutex<Vec<PinnedMemory>>,
}

impl Staging {
    pub(super) fn new(context: &Arc<Context>) -> Staging {
        Staging { context: Arc::clone(context), free: Mutex::new(Vec::new()) }
    }

    /// A piece of at least `bytes`, at most [`LARGEST`].
    pub(super) fn borrow(self: &Arc<Staging>, bytes: u64) -> Answer<Piece> {
        let wanted = (bytes as usize).next_power_of_two().max(SMALLEST);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = free.iter().position(|memory| memory.len() == wanted);
        let memory = match fitting {
            Some(index) => free.swap_remove(index),
            None => {
                drop(free);
                PinnedMemory::alloc(&self.context, wanted)?
            }
        };
        Ok(Piece { staging: Arc::clone(self), memory: Some(memory) })
    }
}

/// A lent piece; given back when dropped.
pub(super) struct Piece {
    staging: Arc<Staging>,
    memory: Option<PinnedMemory>,
}

impl Piece {
    /// Its first byte.
    pub(super) fn address(&self) -> *mut u8 {
        self.memory.as_ref().map_or(std::ptr::null_mut(), PinnedMemory::address)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let mut free = self.staging.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < KEPT {
            free.extend(self.memory.take());
        }
    }
}
