//! Where the operands of a product are among a row's arguments, and which rows bring them into its layouts.

use cajeta_abi::{FormatId, LayoutId, Problem, Regime, Row};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;

use crate::tune::declared::{first, is_alone};

/// Whether the device can run a row at a problem.
pub(crate) type Admits<'a> = dyn Fn(&Row, &Problem, &[u8]) -> bool + 'a;

/// Where the operands of a product are among a row's arguments, and the rows that make their layouts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ProductArgs {
    pub(super) x: usize,
    pub(super) weight: usize,
    pub(super) out: usize,
    pub(super) relayout: Option<usize>,
    pub(super) pack: Option<usize>,
}

impl ProductArgs {
    /// The arguments of a row that computes a product alone, and the format of its weight.
    ///
    /// # Errors
    /// In words, why nobody can tell what it reads and writes.
    pub(super) fn of(
        rows: &[Row],
        row: &Row,
        problem: &Problem,
        admits: &Admits<'_>,
    ) -> Result<(Format, ProductArgs), String> {
        let wired = |operand: usize| {
            let wire = row.steps.first().and_then(|step| step.operands.get(operand))?;
            wire.as_arg().map(|arg| arg as usize).filter(|&arg| arg < row.args.len())
        };
        let (Some(x), Some(weight), Some(out)) = (wired(0), wired(1), wired(3)) else {
            return Err("its operands are not arguments".to_owned());
        };
        let layout = |arg: usize| row.args.get(arg).map_or(LayoutId::PLAIN, |spec| spec.layout);
        let id = row.args.get(weight).map_or(FormatId::NONE, |spec| spec.format);
        let format = Format::from_id(id.0).filter(|format| format.is_decodable());
        let format = format.ok_or("no host decodes its weights")?;
        if layout(out) != LayoutId::PLAIN {
            return Err("its output is in a layout of the backend's own".to_owned());
        }
        let Problem { m, n, k, .. } = *problem;
        let made = |op: Op, regime: Regime, arg: usize, problem: Problem| {
            if layout(arg).0 < LayoutId::OWN.0 {
                return Ok(None);
            }
            let by = changes(rows, op, regime, id, layout(arg), &|row| admits(row, &problem, &[]));
            by.map(Some).ok_or_else(|| format!("no {} makes the layout of its argument {arg}", op.name()))
        };
        let relayout = made(Op::Relayout, Regime::BIND, weight, Problem { n, k, ..Problem::default() })?;
        let pack = made(Op::Pack, row.regime, x, Problem { m, k, ..Problem::default() })?;
        Ok((format, ProductArgs { x, weight, out, relayout, pack }))
    }
}

/// The first row that does nothing but bring one operand from the file's blocks, or from plain rows, to
/// `layout`.
fn changes(
    rows: &[Row],
    op: Op,
    regime: Regime,
    format: FormatId,
    layout: LayoutId,
    admits: &dyn Fn(&Row) -> bool,
) -> Option<usize> {
    let serves = |row: &Row| {
        let args = ends(row).and_then(|(from, to)| row.args.get(from).zip(row.args.get(to)));
        let (source, target) = match op {
            Op::Relayout => (LayoutId::GGUF, format),
            _ => (LayoutId::PLAIN, FormatId::NONE),
        };
        let fits = args
            .is_some_and(|(from, to)| from.layout == source && from.format == target && to.layout == layout);
        is_alone(row, op) && row.regime == regime && fits && admits(row)
    };
    first(rows, &serves)
}

/// The arguments that a change of layout of one operand reads and writes.
pub(super) fn ends(row: &Row) -> Option<(usize, usize)> {
    let step = row.steps.first()?;
    let mut wired = step.operands.iter().filter_map(|wire| wire.as_arg());
    let (from, to) = (wired.next()?, wired.next()?);
    wired.next().is_none().then_some((from as usize, to as usize))
}
