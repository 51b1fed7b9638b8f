//! Ops over rows of plain f32: norm, add, GLU, copy.

use super::operands::Memory;
use super::{Crew, Task};
use crate::kernel::table::Kernels;

/// Values a thread should have at least to be worth waking.
const WORTH: usize = 16 * 1024;

/// What is done to each row.
pub(crate) enum RowOp {
    /// RMS norm: x, weight.
    Norm { x: Memory, weight: Memory, eps: f32, offset: f32 },
    /// Sum.
    Add { a: Memory, b: Memory },
    /// Gated unit.
    Glu { gate: Memory, up: Memory, gelu: bool },
    /// Rows of `x` (`n` of them), chosen by index where there is one.
    Copy { x: Memory, index: Option<Memory>, n: usize },
}

/// An op over `m` rows of `k` values.
pub(crate) struct RowTask {
    pub(crate) kernels: &'static Kernels,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) op: RowOp,
    pub(crate) out: Memory,
}

impl Task for RowTask {
    fn solo(&self, _phase: usize) -> bool {
        self.m == 1 || self.m * self.k < WORTH
    }

    unsafe fn run(&self, _phase: usize, crew: &mut Crew<'_>) {
        let chunk = crew.chunk(self.m, 4, 1);
        while let Some(rows) = crew.claim(chunk, self.m) {
            for row in rows {
                // SAFETY: `row` is below m, claimed by this thread alone.
                unsafe { self.row(row) };
            }
        }
    }
}

impl RowTask {
    /// # Safety
    /// As [`Task::run`]; `row` is below m.
    unsafe fn row(&self, row: usize) {
        let at = row * self.k;
        // SAFETY: the operands were checked to hold m (copy: n) rows of k values.
        unsafe {
            let out = self.out.f32().add(at);
            match self.op {
                RowOp::Norm { x, weight, eps, offset } => {
                    (self.kernels.norm)(x.f32().add(at), weight.f32(), out, self.k, eps, offset);
                }
                RowOp::Add { a, b } => (self.kernels.add)(a.f32().add(at), b.f32().add(at), out, self.k),
                RowOp::Glu { gate, up, gelu } => {
                    (self.kernels.glu)(gate.f32().add(at), up.f32().add(at), out, self.k, gelu);
                }
                RowOp::Copy { x, index, n } => {
                    let source = index.map_or(row, |index| *index.u32().add(row) as usize);
                    if source < n {
                        std::ptr::copy_nonoverlapping(x.f32().add(source * self.k), out, self.k);
                    } else {
                        std::slice::from_raw_parts_mut(out, self.k).fill(f32::NAN);
                    }
                }
            }
        }
    }
}
