//! `matmul` with few activation rows, alone or with what follows it: an addition,
//! or a second product and the gate between them.

use cajeta_plugin_api::Answer;

use super::operands::Memory;
use super::{Crew, Task};
use crate::kernel::dot::DotArgs;
use crate::kernel::table::{COLUMNS, FORMATS, FormatKernels, Kernels};

/// Activation rows up to which weights are read row by row; more are packed.
pub(crate) const DOT_ROWS: usize = 8;

/// What happens to the product of a row before it is stored.
#[derive(Clone, Copy)]
pub(crate) enum Ending {
    /// Bias, then softcap (0: none).
    Plain { bias: Option<Memory>, softcap: f32 },
    /// Bias, then the sum with a residual of the output's shape.
    Add { bias: Option<Memory>, residual: Memory },
    /// `act(product) * (x . up)`.
    Glu { up: Memory, gelu: bool },
}

/// The operands every form of the product has.
#[derive(Clone, Copy)]
pub(crate) struct Product {
    pub(crate) kernels: &'static Kernels,
    pub(crate) format: usize,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) x: Memory,
    pub(crate) weight: Memory,
    pub(crate) out: Memory,
    pub(crate) ending: Ending,
}

impl Product {
    pub(crate) fn over(&self) -> &'static FormatKernels {
        self.kernels.format(self.format)
    }

    /// Bytes of a weight row.
    pub(crate) fn row_bytes(&self) -> usize {
        // The operand check has established that K is whole blocks.
        FORMATS[self.format].row_bytes(self.k as u64).unwrap_or(0) as usize
    }
}

/// The product read row by row.
pub(crate) struct DotTask(pub(crate) Product);

/// Weight rows a claim is a multiple of; every kernel's group divides it.
const UNIT: usize = 8;

impl Task for DotTask {
    fn solo(&self, _phase: usize) -> bool {
        // Below this a second thread costs about what it saves.
        self.0.m * self.0.n * self.0.k < 32 * 1024
    }

    unsafe fn run(&self, _phase: usize, crew: &mut Crew<'_>) {
        let product = &self.0;
        let chunk = crew.chunk(product.n, 4, UNIT);
        while let Some(rows) = crew.claim(chunk, product.n) {
            let mut column = 0;
            while column < product.m {
                let columns = (product.m - column).min(COLUMNS);
                let mut row = rows.start;
                while row < rows.end {
                    // SAFETY: rows and columns are within the checked operands.
                    row += unsafe { self.group(row, rows.end - row, column, columns) };
                }
                column += columns;
            }
        }
    }
}

impl DotTask {
    /// One group of weight rows from `row` (of `left`) by `columns` activation
    /// rows; answers the rows done.
    ///
    /// # Safety
    /// As [`Task::run`], with `row + left <= n` and `column + columns <= m`.
    unsafe fn group(&self, row: usize, left: usize, column: usize, columns: usize) -> usize {
        let product = &self.0;
        let over = product.over();
        let group = over.rows[columns - 1];
        let (count, dot) =
            if left >= group { (group, over.dot[columns - 1]) } else { (1, over.dot_one[columns - 1]) };
        let row_bytes = product.row_bytes();
        let mut results = [0.0f32; 2 * UNIT * COLUMNS];
        let (first, second) = results.split_at_mut(UNIT * COLUMNS);
        // SAFETY: row `row` starts inside the weight, column `column` inside x.
        let args = unsafe {
            DotArgs {
                rows: product.weight.bytes().add(row * row_bytes),
                row_bytes,
                k: product.k,
                x: product.x.f32().add(column * product.k),
                x_stride: product.k,
                out: first.as_mut_ptr(),
            }
        };
        // SAFETY: `count` rows and `columns` columns are within the operands, and
        // `first` has room for UNIT * COLUMNS results.
        unsafe { dot(&args) };
        if let Ending::Glu { up, gelu } = product.ending {
            // SAFETY: `up` has the shape of `weight`.
            let args = unsafe {
                DotArgs { rows: up.bytes().add(row * row_bytes), out: second.as_mut_ptr(), ..args }
            };
            // SAFETY: as above; the gate reads and writes whole result arrays.
            unsafe {
                dot(&args);
                let len = count * columns;
                (product.kernels.glu)(first.as_ptr(), second.as_ptr(), first.as_mut_ptr(), len, gelu);
            }
        }
        for r in 0..count {
            for c in 0..columns {
                let at = (column + c) * product.n + row + r;
                let value = first[r * columns + c];
                // SAFETY: `at` is below m * n, the size of the output and the
                // residual; `row + r` is below n, the size of the bias.
                unsafe {
                    let value = match product.ending {
                        Ending::Plain { bias: None, softcap: 0.0 } | Ending::Glu { .. } => value,
                        Ending::Plain { bias, softcap } => {
                            let mut value = value + bias_at(bias, row + r);
                            if softcap != 0.0 {
                                (product.kernels.softcap)(&mut value, 1, softcap);
                            }
                            value
                        }
                        Ending::Add { bias, residual } => {
                            *residual.f32().add(at) + (value + bias_at(bias, row + r))
                        }
                    };
                    *product.out.f32().add(at) = value;
                }
            }
        }
        count
    }
}

/// The bias of an output, or 0.
///
/// # Safety
/// `at` is within the bias.
pub(crate) unsafe fn bias_at(bias: Option<Memory>, at: usize) -> f32 {
    // SAFETY: promised by the caller.
    bias.map_or(0.0, |bias| unsafe { *bias.f32().add(at) })
}

/// The task for a product: row by row for few activation rows, packed for many.
pub(crate) fn product_task(product: Product, scratch: Option<Memory>) -> Answer<Box<dyn Task>> {
    match scratch {
        Some(scratch) if product.m > DOT_ROWS => {
            Ok(Box::new(super::gemm::GemmTask { product, packed: scratch }))
        }
        _ => Ok(Box::new(DotTask(product))),
    }
}
