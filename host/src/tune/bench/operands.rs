//! Sizes of a row's arguments at a problem, by the catalog and, for its own layouts, by the backend.

use std::collections::BTreeMap;

use cajeta_abi::{LayoutId, Problem, Row, Shape};
use cajeta_catalog::contract::{self, Role};
use cajeta_catalog::op::Op;
use cajeta_catalog::oracle::operand_bytes;
use cajeta_catalog::oracle::shapes::{row_ops, step_problems};
use cajeta_catalog::quant::Format;
use cajeta_catalog::scalars::{NormScalars, scalar_bytes};

use crate::tune::TuneError;

/// One argument of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArgBytes {
    /// Bytes it takes.
    pub bytes: u64,
    /// Who would provide it.
    pub role: Role,
}

/// Bytes of an own layout for the given sources, or the backend's sentence why not.
pub type LayoutBytes<'a> = dyn Fn(LayoutId, &[Shape]) -> Result<u64, String> + 'a;

/// Sizes of a row's arguments; `None` for an optional one that is left out. `layout_bytes` answers for the
/// backend's own layouts.
///
/// # Errors
/// Sizes that contradict, a layout that refuses, or an argument that only a running model can give: step
/// state and the cache.
pub fn arg_bytes(
    row: &Row,
    problem: &Problem,
    scalars: &[u8],
    layout_bytes: &LayoutBytes<'_>,
) -> Result<Vec<Option<ArgBytes>>, TuneError> {
    let name = || row.name.to_string();
    let size = |reason| TuneError::Size { row: name(), reason };
    let untimed = |why: String| TuneError::Untimed { what: format!("row `{}`", row.name), why };
    let ops = row_ops(row).map_err(size)?;
    let problems = step_problems(row, problem, scalars).map_err(size)?;
    let mut found: BTreeMap<usize, ArgBytes> = BTreeMap::new();
    for ((&op, step), problem) in ops.iter().zip(row.steps.iter()).zip(&problems) {
        for (at, (operand, wire)) in contract::operands(op).iter().zip(step.operands.iter()).enumerate() {
            let Some(index) = wire.as_arg().map(|index| index as usize) else { continue };
            let Some(spec) = row.args.get(index) else { continue };
            // Optional operands are left out: they cost next to nothing.
            if operand.attr != 0 || found.contains_key(&index) {
                continue;
            }
            if matches!(operand.role, Role::State | Role::Plane) {
                return Err(untimed(format!("its {} belongs to a running model", operand.name)));
            }
            let format = Format::from_id(spec.format.0);
            let bytes = if spec.layout.0 >= LayoutId::OWN.0 {
                let shape = match operand.role {
                    Role::Weight => Shape { format: spec.format, rows: problem.n, width: problem.k },
                    _ => activation(op, operand.name, problem),
                };
                layout_bytes(spec.layout, &[shape]).map_err(untimed)?
            } else {
                operand_bytes(op, problem, &[], format, at)
                    .map_err(size)?
                    .ok_or_else(|| untimed(format!("nothing says how large its {} is", operand.name)))?
            };
            found.insert(index, ArgBytes { bytes, role: operand.role });
        }
    }
    Ok((0..row.args.len()).map(|index| found.get(&index).copied()).collect())
}

fn activation(op: Op, operand: &str, problem: &Problem) -> Shape {
    let wide = op == Op::Matmul && operand == "out";
    let width = if wide { problem.n } else { problem.k };
    Shape { format: cajeta_abi::FormatId::NONE, rows: problem.m, width }
}

/// Scalars that ask for nothing special, for every step of a row.
///
/// # Errors
/// When the row has an op that cannot be timed without a model's scalars.
pub fn plain_scalars(row: &Row) -> Result<Vec<u8>, TuneError> {
    let ops = row_ops(row).map_err(|reason| TuneError::Size { row: row.name.to_string(), reason })?;
    let mut scalars = Vec::new();
    for op in ops {
        match op {
            Op::Norm => {
                scalars.extend_from_slice(bytemuck::bytes_of(&NormScalars { eps: 1e-5, offset: 0.0 }));
            }
            Op::Matmul | Op::Glu | Op::Add | Op::Copy => {
                scalars.extend(std::iter::repeat_n(0u8, scalar_bytes(op).next_multiple_of(8)));
            }
            other => {
                return Err(TuneError::Untimed {
                    what: format!("row `{}`", row.name),
                    why: format!("{} belongs to a running model", other.name()),
                });
            }
        }
    }
    Ok(scalars)
}
