//! One launch: held against its row when its list is prepared, computed when it runs.

use cajeta_plugin_api::abi::{Access, LayoutId, Problem, Row};
use cajeta_plugin_api::catalog::op::{Op, attr};
use cajeta_plugin_api::catalog::oracle::compose::Place;
use cajeta_plugin_api::catalog::oracle::shapes::row_ops;
use cajeta_plugin_api::catalog::oracle::{Composition, OracleBuf, OracleError, operand_bytes};
use cajeta_plugin_api::catalog::quant::{Format, decode_row};
use cajeta_plugin_api::{Answer, Fault};

use crate::layouts::{COLUMNS, EXPANDED, elements, transpose};

/// The memory behind one argument of a running launch.
pub enum ArgBytes<'a> {
    /// An optional operand that is not there.
    Absent,
    /// What the row reads.
    Read(&'a [u8]),
    /// What the row writes, or reads and writes.
    Write(&'a mut [u8]),
}

/// A launch that fits its row.
pub struct Prepared {
    /// Index of the row.
    pub row: usize,
    work: Work,
    views: Vec<View>,
}

enum Work {
    /// The steps' oracles, one after another.
    Compose(Composition),
    /// A weight of a file format to `ref.f32`.
    Expand { format: Format, rows: u64, width: u64 },
}

/// How an argument's bytes are arranged.
#[derive(Clone, Copy)]
enum View {
    Plain,
    Weight(Format),
    Columns { rows: usize, width: usize },
}

impl Prepared {
    /// Checks a launch. `lengths` are the bytes of each argument, `None` for
    /// one that is absent.
    ///
    /// # Errors
    /// Sizes that contradict the problem or each other, an argument that is too
    /// short, a format that does not decode.
    pub fn new(
        index: usize,
        row: &Row,
        problem: &Problem,
        scalars: &[u8],
        lengths: &[Option<u64>],
    ) -> Answer<Prepared> {
        let refuse = |what: String| Fault::invalid(format!("launch of {}: {what}", row.name));
        let oracle = |error: OracleError| refuse(error.to_string());
        let mut views = Vec::with_capacity(row.args.len());
        for arg in row.args.iter() {
            let format = Format::from_id(arg.format.0);
            views.push(match (arg.layout, format) {
                (LayoutId::GGUF, Some(format)) => View::Weight(format),
                (LayoutId::GGUF, None) => return Err(refuse(format!("format {} is unknown", arg.format.0))),
                (EXPANDED, _) => View::Weight(Format::F32),
                (COLUMNS, _) => View::Columns { rows: 0, width: 0 },
                _ => View::Plain,
            });
        }
        if row_ops(row).map_err(oracle)? == [Op::Relayout] {
            let Some(View::Weight(format)) = views.first().copied() else {
                return Err(refuse("a relayout reads a weight".to_owned()));
            };
            let source = operand_bytes(Op::Relayout, problem, scalars, Some(format), 0).map_err(oracle)?;
            fits(row, lengths, 0, source.unwrap_or(0))?;
            fits(row, lengths, 1, elements(problem.n, problem.k)?)?;
            let work = Work::Expand { format, rows: problem.n, width: problem.k };
            return Ok(Prepared { row: index, work, views });
        }
        let present = |arg: usize| lengths.get(arg).is_some_and(Option::is_some);
        let composition = Composition::of(row, problem, scalars, None, &present).map_err(oracle)?;
        for step in &composition.steps {
            for (operand, place) in step.operands.iter().enumerate() {
                let Place::Arg(arg) = *place else { continue };
                let (format, columns) = match views.get_mut(arg) {
                    Some(View::Columns { rows, width }) => {
                        (*rows, *width) = (step.problem.m as usize, step.problem.k as usize);
                        (None, true)
                    }
                    Some(View::Weight(format)) => (Some(*format), false),
                    _ => (None, false),
                };
                let need = operand_bytes(step.op, &step.problem, &step.scalars, format, operand);
                let need = match need.map_err(oracle)? {
                    Some(need) => need,
                    None if columns => elements(step.problem.m, step.problem.k)?,
                    // A plane: any whole number of blocks, and its tables say how many.
                    None => 0,
                };
                fits(row, lengths, arg, need)?;
            }
        }
        Ok(Prepared { row: index, work: Work::Compose(composition), views })
    }

    /// Makes this launch do less than it was asked: the defect of that name.
    pub fn forget_attributes(&mut self) {
        const OPERANDS: u64 = attr::BIAS | attr::SINKS | attr::ROPE_FACTORS | attr::INDEXED;
        if let Work::Compose(composition) = &mut self.work {
            composition.steps.iter_mut().for_each(|step| step.attrs &= OPERANDS);
        }
    }

    /// Computes.
    ///
    /// # Errors
    /// What only the data can say: an index outside its plane.
    pub fn run(&self, args: &mut [ArgBytes<'_>]) -> Result<(), OracleError> {
        match &self.work {
            Work::Expand { format, rows, width } => expand(*format, *rows, *width, args),
            Work::Compose(composition) => self.compose(composition, args),
        }
    }

    fn compose(&self, composition: &Composition, args: &mut [ArgBytes<'_>]) -> Result<(), OracleError> {
        // Columns are turned into rows before the oracles, and back after them.
        let mut turned: Vec<Option<Vec<u8>>> = Vec::with_capacity(args.len());
        for (view, arg) in self.views.iter().zip(args.iter()) {
            turned.push(match (view, arg) {
                (View::Columns { rows, width }, ArgBytes::Read(bytes)) => {
                    let mut plain = vec![0; rows * width * 4];
                    transpose(bytes, *width, *rows, &mut plain);
                    Some(plain)
                }
                (View::Columns { rows, width }, ArgBytes::Write(_)) => Some(vec![0; rows * width * 4]),
                _ => None,
            });
        }
        let mut buffers: Vec<OracleBuf<'_>> = Vec::with_capacity(args.len());
        for ((view, arg), turned) in self.views.iter().zip(args.iter_mut()).zip(&mut turned) {
            buffers.push(match (view, arg, turned) {
                (_, ArgBytes::Absent, _) => OracleBuf::Absent,
                (_, ArgBytes::Read(_), Some(turned)) => OracleBuf::Plain(turned),
                (_, ArgBytes::Write(_), Some(turned)) => OracleBuf::Out(turned),
                (View::Weight(format), ArgBytes::Read(bytes), _) => OracleBuf::Weight(*format, bytes),
                (_, ArgBytes::Read(bytes), _) => OracleBuf::Plain(bytes),
                (_, ArgBytes::Write(bytes), _) => OracleBuf::Out(bytes),
            });
        }
        composition.run(&mut buffers)?;
        drop(buffers);
        for ((view, arg), turned) in self.views.iter().zip(args).zip(&turned) {
            if let (View::Columns { rows, width }, ArgBytes::Write(to), Some(plain)) = (view, arg, turned) {
                transpose(plain, *rows, *width, to);
            }
        }
        Ok(())
    }
}

/// Which arguments of a row are written.
pub fn writes(row: &Row, arg: usize) -> bool {
    row.args.get(arg).is_some_and(|arg| arg.access != Access::READ)
}

fn fits(row: &Row, lengths: &[Option<u64>], arg: usize, need: u64) -> Answer<()> {
    match lengths.get(arg).copied().flatten() {
        Some(len) if len < need => Err(Fault::invalid(format!(
            "launch of {}: argument {arg} needs {need} bytes at this problem, {len} given",
            row.name
        ))),
        _ => Ok(()),
    }
}

fn expand(format: Format, rows: u64, width: u64, args: &mut [ArgBytes<'_>]) -> Result<(), OracleError> {
    let [ArgBytes::Read(source), ArgBytes::Write(out)] = args else { return Ok(()) };
    let row_bytes = format.row_bytes(width).unwrap_or(0) as usize;
    let mut values = vec![0f32; width as usize];
    let out_rows = out.chunks_exact_mut(width as usize * 4);
    for (from, to) in source.chunks_exact(row_bytes.max(1)).zip(out_rows).take(rows as usize) {
        decode_row(format, from, &mut values)
            .map_err(|reason| OracleError::Decode { op: Op::Relayout, reason })?;
        for (to, value) in to.as_chunks_mut::<4>().0.iter_mut().zip(&values) {
            *to = value.to_le_bytes();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
