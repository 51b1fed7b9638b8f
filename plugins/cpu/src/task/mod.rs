//! Prepared launches: each op with its kernels chosen, its operands resolved and
//! its sizes checked, ready to run any number of times.

mod operands;
mod matmul;
mod deq;
mod gemm;
mod rows;
mod embed;
mod rope;
mod attention;
mod attention_tile;
mod attention_rows;
mod tail;
mod bind;

pub(crate) use attention::scratch_bytes as attention_scratch_bytes;
pub(crate) use attention_tile::TILE as GROUP_MAX;
pub(crate) use bind::bind;
pub(crate) use gemm::scratch_bytes as gemm_scratch_bytes;
pub(crate) use matmul::DOT_ROWS;
pub(crate) use rope::HEAD_DIM_MAX;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// f32 values of private working memory each thread has.
pub(crate) const ARENA: usize = 160 * 1024;

/// One launch, prepared. A phase ends when every thread has left it.
pub(crate) trait Task: Send + Sync {
    /// Phases; each sees what earlier ones wrote.
    fn phases(&self) -> usize {
        1
    }

    /// Whether a phase is too small to be worth a second thread.
    fn solo(&self, phase: usize) -> bool;

    /// A thread's part of a phase.
    ///
    /// # Safety
    /// - The buffers of the launch live and nothing else writes what it reads
    ///   or touches what it writes.
    /// - Every earlier phase is complete; `crew`'s counter started at zero.
    unsafe fn run(&self, phase: usize, crew: &mut Crew<'_>);
}

/// What a thread needs to take its part.
pub(crate) struct Crew<'a> {
    /// Threads in this phase.
    pub(crate) threads: usize,
    /// The shared counter work is claimed from.
    pub(crate) next: &'a AtomicUsize,
    /// Private memory: [`ARENA`] values on a cache line.
    pub(crate) arena: *mut f32,
    /// Where a run-time refusal goes.
    pub(crate) refusal: &'a Refusal,
}

impl Crew<'_> {
    /// The next unclaimed run of at most `chunk` of `total` items.
    pub(crate) fn claim(&self, chunk: usize, total: usize) -> Option<Range<usize>> {
        let start = self.next.fetch_add(chunk, Ordering::Relaxed);
        (start < total).then(|| start..(start + chunk).min(total))
    }

    /// A chunk that gives each thread about `parts` turns, a multiple of `unit`.
    pub(crate) fn chunk(&self, total: usize, parts: usize, unit: usize) -> usize {
        total.div_ceil(self.threads * parts).next_multiple_of(unit).max(unit)
    }
}

/// The first thing a launch found wrong with the values it read.
#[derive(Default)]
pub(crate) struct Refusal {
    set: AtomicBool,
    text: Mutex<Option<String>>,
}

impl Refusal {
    /// Records a sentence unless there is one.
    pub(crate) fn say(&self, text: impl FnOnce() -> String) {
        if !self.set.swap(true, Ordering::AcqRel) {
            *self.text.lock().unwrap_or_else(PoisonError::into_inner) = Some(text());
        }
    }

    /// Takes the sentence, if there is one.
    pub(crate) fn take(&self) -> Option<String> {
        if !self.set.load(Ordering::Acquire) {
            return None;
        }
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.set.store(false, Ordering::Release);
        text
    }
}
