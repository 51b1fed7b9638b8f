//! Turns a case into buffers and launches: the row itself, and before and after
//! it the rows that make or read the plugin's own layouts.

use std::fmt;

use cajeta_abi::{Access, Arith, FormatId, LayoutId, Problem, Row, Shape};
use cajeta_catalog::op::{Op, attr};
use cajeta_catalog::oracle::compose::Place;
use cajeta_catalog::oracle::shapes::row_ops;
use cajeta_plugin_host::Backend;

use crate::case::{Arg, Case, Kind};
use crate::draw::{self, Given};
use crate::expect::{self, Expected, Unit, coarser};
use crate::random::Random;

/// What a buffer must hold afterwards.
pub(crate) enum Wanted {
    /// What it held before.
    Unchanged,
    /// A plugin's layout: nobody looks inside.
    Opaque,
    /// These bytes, each element within its unit. Boxed: most buffers have none.
    Output(Box<Output>),
}

/// An expected output.
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
    pub(crate) unit: Unit,
    pub(crate) of: Judged,
}

/// How an output's bytes are compared.
pub(crate) enum Judged {
    /// f32 elements.
    Floats,
    /// f16 elements.
    Halves,
    /// The bytes themselves.
    Exactly,
    /// Token ids that `sample` drew: logits and parameters.
    Drawn { logits: Vec<f32>, params: Vec<u8> },
    /// Indices of the largest: logits and how far off each may be.
    Largest { logits: Vec<f32>, unit: Vec<f32> },
}

/// One buffer.
pub(crate) struct Buffer {
    /// For messages: the row and argument that it is.
    pub(crate) name: String,
    pub(crate) len: u64,
    /// Offsets are multiples of this.
    pub(crate) align: u64,
    /// Readable bytes after the end.
    pub(crate) padding: u64,
    /// Written before the launches; `None` leaves the poison.
    pub(crate) initial: Option<Vec<u8>>,
    pub(crate) wanted: Wanted,
}

/// One launch.
pub(crate) struct Launch {
    pub(crate) row: usize,
    pub(crate) problem: Problem,
    pub(crate) scalars: Vec<u8>,
    pub(crate) args: Vec<Option<usize>>,
}

/// What the case asks of its row.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) row: usize,
    ops: Vec<(Op, u64)>,
    problem: Problem,
    /// Whether an output is written over an input; `None` where the row never does that.
    in_place: Option<bool>,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (op, attrs) in &self.ops {
            f.write_str(op.name())?;
            for (_, name) in attr::NAMES.iter().filter(|(bit, _)| attrs & bit != 0) {
                write!(f, "+{name}")?;
            }
            f.write_str(", ")?;
        }
        let Problem { m, n, k, batch, .. } = self.problem;
        write!(f, "M {m} N {n} K {k} S {batch}")?;
        match self.in_place {
            Some(true) => f.write_str(", in place"),
            Some(false) => f.write_str(", not in place"),
            None => Ok(()),
        }
    }
}

/// Everything the device is asked to do for one case.
#[derive(Default)]
pub(crate) struct Plan {
    /// For messages.
    pub(crate) asked: Option<Asked>,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) launches: Vec<Launch>,
    /// The coarsest class among the launches.
    pub(crate) arith: Option<Arith>,
}

/// Plans a case. `in_place` lets outputs share the buffer of the input they may alias.
///
/// # Errors
/// A layout nothing makes, or nothing reads.
pub(crate) fn plan(
    backend: &Backend,
    case: &Case,
    in_place: bool,
    random: &mut Random,
) -> Result<Plan, String> {
    let expected = expect::expect(case)?;
    let mut plan = Plan::default();
    plan.add(backend, case, &expected, in_place, &[], random)?;
    Ok(plan)
}

impl Plan {
    fn add(
        &mut self,
        backend: &Backend,
        case: &Case,
        expected: &Expected,
        in_place: bool,
        given: &[(usize, usize)],
        random: &mut Random,
    ) -> Result<(), String> {
        let row = &backend.rows()[case.row];
        self.arith = Some(self.arith.map_or(row.arith, |arith| coarser(arith, row.arith)));
        let mut args: Vec<Option<usize>> = vec![None; case.args.len()];
        let mut to_read = Vec::new();
        let mut over = false;
        for (index, arg) in case.args.iter().enumerate() {
            let spec = row.args[index];
            let writes = spec.access != Access::READ;
            if let Some((_, buffer)) = given.iter().find(|(of, _)| *of == index) {
                args[index] = Some(*buffer);
                continue;
            }
            let name = format!("argument {index} of {}", row.name);
            let new = |len: u64, initial, wanted| Buffer {
                name: name.clone(),
                len,
                align: u64::from(spec.align.max(1)),
                padding: u64::from(spec.padding),
                initial,
                wanted,
            };
            args[index] = match arg {
                Arg::Absent => None,
                Arg::Direct => {
                    let slot = &case.slots[index];
                    let shared =
                        usize::try_from(spec.alias).ok().filter(|_| in_place && spec.access == Access::WRITE);
                    let shared = shared
                        .and_then(|other| args.get(other).copied().flatten().map(|buffer| (other, buffer)));
                    let shared = shared.filter(|(other, buffer)| {
                        case.slots[*other].bytes.len() == slot.bytes.len()
                            && self.buffers[*buffer].initial.is_some()
                    });
                    let wanted = match writes.then(|| output(case, expected, index, row)).flatten() {
                        Some(output) => Wanted::Output(Box::new(output)),
                        None => Wanted::Unchanged,
                    };
                    match shared {
                        Some((_, buffer)) => {
                            over = true;
                            self.buffers[buffer].wanted = wanted;
                            Some(buffer)
                        }
                        None => {
                            let initial = (spec.access != Access::WRITE).then(|| slot.bytes.clone());
                            Some(self.push(new(slot.bytes.len() as u64, initial, wanted)))
                        }
                    }
                }
                Arg::OwnWeight { layout, sources, rows, width } => {
                    let format = spec.format;
                    let shape = |&rows: &u64| Shape { format, rows, width: *width };
                    let shapes: Vec<Shape> = rows.iter().map(shape).collect();
                    let len = own_bytes(backend, *layout, &shapes)?;
                    let buffer = self.push(new(len, None, Wanted::Opaque));
                    let sources: Vec<&[u8]> =
                        sources.iter().map(|&slot| &case.slots[slot].bytes[..]).collect();
                    self.relayout(backend, *layout, format, &sources, rows, *width, buffer)?;
                    Some(buffer)
                }
                Arg::OwnActivation { layout, rows, width } => {
                    let shape = Shape { format: FormatId::NONE, rows: *rows, width: *width };
                    let len = own_bytes(backend, *layout, &[shape])?;
                    let buffer = self.push(new(len, None, Wanted::Opaque));
                    if writes {
                        to_read.push((index, buffer, *layout, *rows, *width));
                    } else {
                        self.pack(backend, case, index, *layout, *rows, *width, buffer)?;
                    }
                    Some(buffer)
                }
            };
        }
        let (problem, scalars) = (case.drawn.problem, case.drawn.scalars.clone());
        if self.asked.is_none() {
            let ops = case.drawn.ops.iter().copied().zip(case.drawn.attrs.iter().copied()).collect();
            let in_place = row.args.iter().any(|arg| arg.alias >= 0).then_some(over);
            self.asked = Some(Asked { row: case.row, ops, problem, in_place });
        }
        self.launches.push(Launch { row: case.row, problem, scalars, args });
        for (arg, buffer, layout, rows, width) in to_read {
            let (values, unit) =
                (&expected.slots[arg].bytes, expected.units[arg].clone().unwrap_or_default());
            self.read_back(backend, layout, rows, width, buffer, values, unit, random)?;
        }
        Ok(())
    }

    fn push(&mut self, buffer: Buffer) -> usize {
        self.buffers.push(buffer);
        self.buffers.len() - 1
    }

    fn source(&mut self, row: &Row, arg: usize, bytes: &[u8]) -> usize {
        let spec = row.args[arg];
        self.push(Buffer {
            name: format!("argument {arg} of {}", row.name),
            len: bytes.len() as u64,
            align: u64::from(spec.align.max(1)),
            padding: u64::from(spec.padding),
            initial: Some(bytes.to_vec()),
            wanted: Wanted::Unchanged,
        })
    }

    /// Launches the relayout row that makes a weight layout of these sources.
    #[allow(clippy::too_many_arguments)] // One call site; a struct would only repeat these names.
    fn relayout(
        &mut self,
        backend: &Backend,
        layout: LayoutId,
        format: FormatId,
        sources: &[&[u8]],
        rows: &[u64],
        width: u64,
        into: usize,
    ) -> Result<(), String> {
        let problem = Problem {
            n: rows.first().copied().unwrap_or(0),
            m: rows.get(1).copied().unwrap_or(0),
            k: width,
            batch: 0,
            aux: rows.get(2).copied().unwrap_or(0),
        };
        let fits = |row: &Row| {
            let args: Vec<usize> = source_args(row);
            row_ops(row) == Ok(vec![Op::Relayout])
                && args.len() == sources.len()
                && args.iter().all(|&arg| row.args[arg].format == format)
                && out_arg(row).is_some_and(|out| row.args[out].layout == layout)
                && admits(row, Op::Relayout, &problem)
        };
        let (index, row) = find(backend, fits).ok_or_else(|| {
            format!(
                "no relayout row makes layout {} of {} sources of format {}",
                layout.0,
                sources.len(),
                format.0
            )
        })?;
        let mut args = vec![None; row.args.len()];
        for (arg, bytes) in source_args(row).into_iter().zip(sources) {
            args[arg] = Some(self.source(row, arg, bytes));
        }
        if let Some(out) = out_arg(row) {
            args[out] = Some(into);
        }
        self.launches.push(Launch { row: index, problem, scalars: Vec::new(), args });
        Ok(())
    }

    /// Launches the pack row that makes an activation layout of a case's argument.
    #[allow(clippy::too_many_arguments)] // As `relayout`.
    fn pack(
        &mut self,
        backend: &Backend,
        case: &Case,
        arg: usize,
        layout: LayoutId,
        rows: u64,
        width: u64,
        into: usize,
    ) -> Result<(), String> {
        let problem = Problem { m: rows, k: width, ..Problem::default() };
        let wanted = backend.rows()[case.row].regime;
        let fits = |row: &Row| {
            row_ops(row) == Ok(vec![Op::Pack])
                && row.args.len() == 2
                && row.args[1].layout == layout
                && row.args[0].layout == LayoutId::PLAIN
                && admits(row, Op::Pack, &problem)
        };
        let (index, row) = find(backend, |row| row.regime == wanted && fits(row))
            .or_else(|| find(backend, fits))
            .ok_or_else(|| format!("no pack row makes layout {} for {rows} rows of {width}", layout.0))?;
        let x = self.source(row, 0, &case.slots[arg].bytes);
        self.arith = Some(self.arith.map_or(row.arith, |arith| coarser(arith, row.arith)));
        self.launches.push(Launch {
            row: index,
            problem,
            scalars: Vec::new(),
            args: vec![Some(x), Some(into)],
        });
        Ok(())
    }

    /// Launches a product that reads what a row wrote in an activation layout.
    #[allow(clippy::too_many_arguments)] // As `relayout`.
    fn read_back(
        &mut self,
        backend: &Backend,
        layout: LayoutId,
        rows: u64,
        width: u64,
        from: usize,
        values: &[u8],
        unit: Unit,
        random: &mut Random,
    ) -> Result<(), String> {
        let given = Given { m: Some(rows), k: Some(width), narrow: false };
        let reads = |row: &Row| {
            row_ops(row) == Ok(vec![Op::Matmul])
                && row.steps[0].operands.first().and_then(|wire| wire.as_arg()) == Some(0)
                && row.args.first().is_some_and(|arg| arg.layout == layout)
        };
        let mut refused = format!("no product reads layout {} for {rows} rows of {width}", layout.0);
        for (index, row) in backend.rows().iter().enumerate().filter(|(_, row)| reads(row)) {
            let Some(drawn) = draw::draw(row, 0, given, random) else { continue };
            match Case::new(index, row, backend.layouts(), drawn, &[(0, values.to_vec())], random) {
                Ok(case) => {
                    let mut expected = expect::expect(&case)?;
                    // What the writer may be off by, the reader may be off by too.
                    let carried = expect::carried_through(&case, &expected, 0, &unit);
                    for (slot, unit) in carried {
                        expected.units[slot] = Some(unit);
                    }
                    return self.add(backend, &case, &expected, false, &[(0, from)], random);
                }
                Err(why) => refused = why,
            }
        }
        Err(refused)
    }
}

/// The expected content of a written argument.
fn output(case: &Case, expected: &Expected, slot: usize, row: &Row) -> Option<Output> {
    let (step, position) = case.writer(slot)?;
    let values = |position: usize| match step.operands.get(position) {
        Some(Place::Arg(at)) => expected.slots.get(*at).map(|slot| &slot.bytes[..]).unwrap_or(&[]),
        _ => &[],
    };
    let of = match step.op {
        Op::Sample => Judged::Drawn { logits: expect::floats(values(0)), params: values(1).to_vec() },
        Op::Argmax => {
            let unit = match step.operands.first() {
                Some(Place::Arg(at)) => expected.units.get(*at).cloned().flatten().unwrap_or_default().scaled,
                _ => Vec::new(),
            };
            Judged::Largest { logits: expect::floats(values(0)), unit }
        }
        Op::Advance => Judged::Exactly,
        _ if row.args[slot].layout == LayoutId::KV_F16 => Judged::Halves,
        _ if case.slots[slot].kind != Kind::Plain => Judged::Exactly,
        _ if step.op == Op::RopeAppend && position != 0 => Judged::Halves,
        _ => Judged::Floats,
    };
    let bytes = expected.slots[slot].bytes.clone();
    Some(Output { bytes, unit: expected.units[slot].clone().unwrap_or_default(), of })
}

fn own_bytes(backend: &Backend, layout: LayoutId, shapes: &[Shape]) -> Result<u64, String> {
    let bytes = backend.layout_bytes(layout, shapes).map_err(|error| error.to_string())?;
    match bytes {
        0 => Err(format!("layout {} takes 0 bytes for {shapes:?}", layout.0)),
        bytes if bytes > 1 << 30 => Err(format!("layout {} takes {bytes} bytes for {shapes:?}", layout.0)),
        bytes => Ok(bytes),
    }
}

fn find(backend: &Backend, fits: impl Fn(&Row) -> bool) -> Option<(usize, &'static Row)> {
    backend.rows().iter().enumerate().find(|(_, row)| fits(row))
}

fn admits(row: &Row, op: Op, problem: &Problem) -> bool {
    row.shape_gates
        .iter()
        .all(|gate| draw::admits(gate, cajeta_catalog::contract::subject(op, problem, &[], gate.subject)))
}

/// The arguments a relayout row reads, in source order.
fn source_args(row: &Row) -> Vec<usize> {
    let wires = row.steps.first().map(|step| step.operands.as_slice()).unwrap_or(&[]);
    wires
        .iter()
        .take(3)
        .filter_map(|wire| wire.as_arg())
        .map(|arg| arg as usize)
        .filter(|&a| a < row.args.len())
        .collect()
}

fn out_arg(row: &Row) -> Option<usize> {
    let wire = row.steps.first()?.operands.get(3)?;
    wire.as_arg().map(|arg| arg as usize).filter(|&arg| arg < row.args.len())
}
