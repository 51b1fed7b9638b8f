//! `matmul` with few activation rows: one product or several of one input, each
//! with what follows it: an addition, or a second product and the gate between them.

use std::ops::Range;

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

/// One weight, and what becomes of its product with the input.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    /// Index in [`FORMATS`].
    pub(crate) format: usize,
    /// Whether the weights are widened: tiles of f32, and no blocks of the format.
    pub(crate) wide: bool,
    pub(crate) n: usize,
    pub(crate) weight: Memory,
    pub(crate) out: Memory,
    pub(crate) ending: Ending,
}

/// An input, and the weights it meets.
pub(crate) struct Product {
    pub(crate) kernels: &'static Kernels,
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) x: Memory,
    /// Whether a single row of the input asks for weights from further ahead.
    pub(crate) far: bool,
    pub(crate) parts: Vec<Part>,
}

impl Product {
    pub(crate) fn over(&self, part: &Part) -> &'static FormatKernels {
        self.kernels.format(part.format)
    }

    /// Bytes of a weight row.
    pub(crate) fn row_bytes(&self, part: &Part) -> usize {
        // The operand check has established that K is whole blocks.
        FORMATS[part.format].row_bytes(self.k as u64).unwrap_or(0) as usize
    }

    /// Weight rows of all parts.
    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.n).sum()
    }

    /// What there is to claim, `chunk` rows at a time: each part is rounded up, so
    /// that no claim reaches over two of them.
    pub(crate) fn claimable(&self, chunk: usize) -> usize {
        self.parts.iter().map(|part| part.n.next_multiple_of(chunk)).sum()
    }

    /// The part that a claim falls in, and the rows of it.
    pub(crate) fn claimed(&self, claim: Range<usize>, chunk: usize) -> Option<(&Part, Range<usize>)> {
        let mut before = 0;
        for part in &self.parts {
            let end = before + part.n.next_multiple_of(chunk);
            if claim.start < end {
                return Some((part, claim.start - before..(claim.end - before).min(part.n)));
            }
            before = end;
        }
        None
    }
}

/// The product read row by row.
pub(crate) struct DotTask(pub(crate) Product);

/// Weight rows a claim is a multiple of; every kernel's group divides it.
const UNIT: usize = 8;

impl Task for DotTask {
    fn solo(&self, _phase: usize) -> bool {
        // Below this a second thread costs about what it saves.
        self.0.m * self.0.rows() * self.0.k < 32 * 1024
    }

    unsafe fn run(&self, _phase: usize, crew: &mut Crew<'_>) {
        let product = &self.0;
        let chunk = crew.chunk(product.rows(), 4, UNIT);
        while let Some(claim) = crew.claim(chunk, product.claimable(chunk)) {
            let Some((part, rows)) = product.claimed(claim, chunk) else { continue };
            let mut column = 0;
            while column < product.m {
                let columns = (product.m - column).min(COLUMNS);
                let mut row = rows.start;
                while row < rows.end {
                    // SAFETY: rows and columns are within the checked operands.
                    row += unsafe { self.group(part, row, rows.end - row, column, columns) };
                }
                column += columns;
            }
        }
    }
}

impl DotTask {
    /// One group of a part's weight rows from `row` (of `left`) by `columns`
    /// activation rows; answers the rows done.
    ///
    /// # Safety
    /// As [`Task::run`], with `row + left <= n` and `column + columns <= m`.
    unsafe fn group(&self, part: &Part, row: usize, left: usize, column: usize, columns: usize) -> usize {
        let product = &self.0;
        let over = product.over(part);
        let group = over.rows[columns - 1];
        let (count, dot) = match left >= group {
            true if product.far && columns == 1 => (group, over.far),
            true => (group, over.dot[columns - 1]),
            false => (1, over.dot_one[columns - 1]),
        };
        let row_bytes = product.row_bytes(part);
        let mut results = [0.0f32; 2 * UNIT * COLUMNS];
        let (first, second) = results.split_at_mut(UNIT * COLUMNS);
        // SAFETY: row `row` starts inside the weight, column `column` inside x.
        let args = unsafe {
            DotArgs {
                rows: part.weight.bytes().add(row * row_bytes),
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
        if let Ending::Glu { up, gelu } = part.ending {
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
                let at = (column + c) * part.n + row + r;
                let value = first[r * columns + c];
                // SAFETY: `at` is below m * n, the size of the output and the
                // residual; `row + r` is below n, the size of the bias.
                unsafe {
                    let value = match part.ending {
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
                    *part.out.f32().add(at) = value;
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
