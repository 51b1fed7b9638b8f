//! Checks what a library calls its rows and layouts before anything is built on them.
//!
//! The host builds routes from rows and prints their names, so a malformed row is refused here, with
//! its number, and with it the plugin. A row of an op this catalog does not know is well formed: it
//! is for a newer host, and nothing asks for it.

use std::collections::HashSet;
use std::path::Path;

use abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{Access, Layout, LayoutId, Row, SCALAR_BYTES_MAX, Step, Wire};
use cajeta_catalog::contract::operands;
use cajeta_catalog::op::Op;
use cajeta_catalog::scalars::scalar_bytes;

use crate::candidate::{Refusal, Stage};
use crate::printable;

/// Most rows, and most layouts, a plugin may have.
pub const ROWS_MAX: usize = 65536;
/// Most bytes of a name.
pub const NAME_MAX: usize = 128;
/// Most entries of each list inside a row.
pub const LIST_MAX: usize = 256;

/// A slice of a library, if its pointer and length can be one of at most `limit` elements.
pub(crate) fn slice<T>(raw: RSlice<'static, T>, limit: usize) -> Option<&'static [T]> {
    let address = raw.as_ptr();
    let fits = raw.len() <= limit && !address.is_null() && address.is_aligned();
    fits.then(|| raw.as_slice())
}

/// Text of a library, if it is at most `limit` bytes of printable UTF-8.
pub(crate) fn text(raw: RStr<'static>, limit: usize) -> Option<&'static str> {
    if raw.as_ptr().is_null() || raw.len() > limit {
        return None;
    }
    std::str::from_utf8(raw.as_rslice().as_slice()).ok().filter(|text| printable::is_printable(text))
}

/// The rows of a library whose layouts number `layouts`, once each of them keeps the rules.
///
/// # Errors
/// Stage layout: a list that cannot be one, a name that does not print, or a row that contradicts itself
/// or the catalog, by its number.
pub fn check(raw: RSlice<'static, Row>, layouts: usize, path: &Path) -> Result<&'static [Row], Refusal> {
    let rows = slice(raw, ROWS_MAX).ok_or_else(|| {
        broken(path, "rows", format!("{} rows at {:p}; at most {ROWS_MAX}", raw.len(), raw.as_ptr()))
    })?;
    let mut names = HashSet::new();
    for (index, row) in rows.iter().enumerate() {
        let name = name(row.name).ok_or_else(|| {
            broken(path, "rows", format!("row {index} has no printable name of at most {NAME_MAX} bytes"))
        })?;
        check_row(row, layouts)
            .map_err(|rule| broken(path, "rows", format!("row {index} `{name}`: {rule}")))?;
        if !names.insert(name) {
            return Err(broken(path, "rows", format!("row {index}: the name `{name}` is taken")));
        }
    }
    Ok(rows)
}

/// The layouts of a library, once each of them keeps the rules.
///
/// # Errors
/// As [`check`].
pub fn check_layouts(raw: RSlice<'static, Layout>, path: &Path) -> Result<&'static [Layout], Refusal> {
    let layouts = slice(raw, ROWS_MAX)
        .ok_or_else(|| broken(path, "layouts", format!("{} layouts; at most {ROWS_MAX}", raw.len())))?;
    let mut names = HashSet::new();
    for (index, layout) in layouts.iter().enumerate() {
        let name = name(layout.name)
            .ok_or_else(|| broken(path, "layouts", format!("layout {index} has no printable name")))?;
        let rule = if slice(layout.formats, LIST_MAX).is_none() {
            Some("its formats are not a list")
        } else if !layout.align.is_power_of_two() || layout.align > 1 << 20 {
            Some("its alignment is not a power of two up to 1 MiB")
        } else if layout.sources == 0 || layout.sources > 3 {
            Some("it packs no source, or more than three")
        } else if !names.insert(name) {
            Some("its name is taken")
        } else {
            None
        };
        if let Some(rule) = rule {
            return Err(broken(path, "layouts", format!("layout {index} `{name}`: {rule}")));
        }
    }
    Ok(layouts)
}

fn name(raw: RStr<'static>) -> Option<&'static str> {
    text(raw, NAME_MAX).filter(|name| !name.trim().is_empty())
}

pub(crate) fn broken(path: &Path, what: &str, rule: String) -> Refusal {
    Refusal::new(
        Stage::Layout,
        format!("malformed {what} in {}: {rule}", path.display()),
        "report this to the plugin's author",
    )
}

fn check_row(row: &Row, layouts: usize) -> Result<(), String> {
    text(row.family, NAME_MAX).ok_or("its family is not printable text")?;
    let steps = slice(row.steps, LIST_MAX).ok_or("its steps are not a list")?;
    let args = slice(row.args, LIST_MAX).ok_or("its arguments are not a list")?;
    if steps.is_empty() {
        return Err("it has no step".into());
    }
    if row.problem_step as usize >= steps.len() {
        return Err(format!("its problem is that of step {} of {}", row.problem_step, steps.len()));
    }
    check_args(row, args.len(), layouts)?;
    check_wiring(steps, args.len())?;
    check_gates(row)
}

fn check_args(row: &Row, count: usize, layouts: usize) -> Result<(), String> {
    for (index, arg) in row.args.iter().enumerate() {
        if arg.layout >= LayoutId::OWN && (arg.layout.0 - LayoutId::OWN.0) as usize >= layouts {
            return Err(format!("argument {index} has layout {}, which the plugin lacks", arg.layout.0));
        }
        if !arg.align.is_power_of_two() || arg.align > 1 << 20 {
            return Err(format!("argument {index} has alignment {}", arg.align));
        }
        if arg.padding > 1 << 20 {
            return Err(format!("argument {index} wants {} readable bytes past its end", arg.padding));
        }
        let alias_is_arg = usize::try_from(arg.alias).is_ok_and(|other| other < count && other != index);
        if arg.alias != -1 && !alias_is_arg {
            return Err(format!(
                "argument {index} may alias argument {}, which is not another one",
                arg.alias
            ));
        }
    }
    Ok(())
}

/// Operands are wired to arguments or to values an earlier step wrote; each argument is used.
fn check_wiring(steps: &'static [Step], args: usize) -> Result<(), String> {
    let mut used = vec![false; args];
    let mut written = HashSet::new();
    let mut scalars = 0usize;
    for (index, step) in steps.iter().enumerate() {
        let wires = slice(step.operands, LIST_MAX).ok_or(format!("step {index} has no list of operands"))?;
        let op = Op::from_id(step.op);
        if let Some(op) = op {
            let expected = operands(op);
            if wires.len() != expected.len() {
                return Err(format!(
                    "step {index} ({}) wires {} operands, the op has {}",
                    op.name(),
                    wires.len(),
                    expected.len()
                ));
            }
            scalars = scalars.saturating_add(scalar_bytes(op));
        }
        let mut outputs = Vec::new();
        for (position, &wire) in wires.iter().enumerate() {
            let contract = op.map(|op| operands(op)[position]);
            if wire == Wire::ABSENT {
                if contract.is_some_and(|operand| !is_optional(op, position, operand.attr)) {
                    return Err(format!("step {index} leaves operand {position} out, which is not optional"));
                }
            } else if let Some(arg) = wire.as_arg() {
                *used
                    .get_mut(arg as usize)
                    .ok_or(format!("step {index} wires operand {position} to argument {arg} of {args}"))? =
                    true;
            } else if let (Some(value), Some(contract)) = (wire.as_internal(), contract) {
                match (contract.access == Access::WRITE, written.contains(&value)) {
                    (true, true) => return Err(format!("step {index} writes internal value {value} again")),
                    (false, false) => {
                        return Err(format!(
                            "step {index} reads internal value {value} before a step wrote it"
                        ));
                    }
                    (true, false) => outputs.push(value),
                    (false, true) => {}
                }
            }
        }
        written.extend(outputs);
    }
    if scalars > SCALAR_BYTES_MAX {
        return Err(format!("its steps take {scalars} bytes of scalars; at most {SCALAR_BYTES_MAX}"));
    }
    match used.iter().position(|used| !used) {
        Some(arg) => Err(format!("argument {arg} belongs to no operand")),
        None => Ok(()),
    }
}

/// Operands that come with an attribute are optional, and so are a relayout's further sources.
fn is_optional(op: Option<Op>, position: usize, attr: u64) -> bool {
    attr != 0 || (op == Some(Op::Relayout) && matches!(position, 1 | 2))
}

fn check_gates(row: &Row) -> Result<(), String> {
    let needs = slice(row.needs, LIST_MAX).ok_or("its needs are not a list")?;
    let shapes = slice(row.shape_gates, LIST_MAX).ok_or("its shape gates are not a list")?;
    let ready = slice(row.ready_gates, LIST_MAX).ok_or("its ready gates are not a list")?;
    for (index, need) in needs.iter().enumerate() {
        name(need.name).ok_or(format!("need {index} has no printable name"))?;
    }
    for (index, gate) in shapes.iter().enumerate() {
        let gate_name = name(gate.name).ok_or(format!("shape gate {index} has no printable name"))?;
        let values =
            slice(gate.values, LIST_MAX).ok_or(format!("gate `{gate_name}` has no list of values"))?;
        if values.is_empty() {
            return Err(format!("gate `{gate_name}` compares with nothing"));
        }
        if gate.test == cajeta_abi::Test::MULTIPLE_OF && values[0] == 0 {
            return Err(format!("gate `{gate_name}` asks for a multiple of zero"));
        }
    }
    for (index, gate) in ready.iter().enumerate() {
        name(gate.name).ok_or(format!("ready gate {index} has no printable name"))?;
    }
    Ok(())
}
