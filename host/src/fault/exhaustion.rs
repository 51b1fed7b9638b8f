//! No memory for what the program itself keeps: an allocator that says so.
//!
//! What a model takes is estimated and asked for with an answer in mind (`engine::load`). The rest is small, and
//! fails only where a limit was set for the process; the usual end of that is an abort.

use std::alloc::{GlobalAlloc, Layout, System};

use super::{decimal, end_with};

/// The system's allocator, but that a refusal ends the process with one sentence.
#[derive(Clone, Copy, Debug, Default)]
pub struct SaysWhenFull;

// SAFETY: every call goes to the system's allocator with the caller's own arguments, and what comes back is
// handed on as it is, unless it is null; then nothing comes back.
unsafe impl GlobalAlloc for SaysWhenFull {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are the ones asked for.
        there(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above; every block is one of the system's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        there(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; every block is one of the system's.
        there(unsafe { System.realloc(block, layout, size) }, size)
    }
}

fn there(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        end_with(&[
            b"out of memory: the system refused ",
            decimal(size as u64, &mut [0; 20]),
            b" bytes; choose a smaller model, lower --ctx, or allow the process more memory",
        ])
    }
    block
}
