//! What a plugin says without executing: facts, registry, manifests, pure answers.

use cajeta_abi::layout::LayoutKind;
use cajeta_abi::{Access, ArgSpec, DtypeId, Fact, FormatId, Layout, LayoutId, Problem, Row, Shape, Step};
use cajeta_catalog::contract::{Operand, Role, operands};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_catalog::state::SECTION_ALIGN;
use cajeta_plugin_host::Device;

use crate::case::own_layout;
use crate::report::{CheckResult, Outcome};

/// A check of the registry.
pub(crate) type Claim = (&'static str, fn(&Device) -> Result<(), String>);

/// All of them, in order.
pub(crate) const CLAIMS: &[Claim] = &[
    ("facts are consistent", facts),
    ("the registry is the same on every call", registry_is_data),
    ("rows are well formed", rows),
    ("layouts are well formed", layouts),
    ("manifests agree with rows", manifests),
    ("pure calls refuse what does not exist", refusals),
];

/// Runs one.
pub(crate) fn check(device: &Device, &(check, run): &Claim) -> CheckResult {
    let outcome = run(device).map_or_else(Outcome::Failed, |()| Outcome::Passed);
    CheckResult { check: check.to_owned(), outcome }
}

fn facts(device: &Device) -> Result<(), String> {
    let facts = device.facts();
    let rule = |holds: bool, rule: &str| if holds { Ok(()) } else { Err(rule.to_owned()) };
    rule(!facts.name.as_str().is_empty(), "the device has no name")?;
    rule(!facts.target.as_str().is_empty(), "the device has no code target")?;
    let align = facts.get(Fact::BUFFER_ALIGNMENT);
    rule(align.is_none_or(u64::is_power_of_two), "the buffer alignment is not a power of two")?;
    for switch in [Fact::INTEGRATED, Fact::HOST_VISIBLE, Fact::SOFTWARE] {
        rule(facts.get(switch).is_none_or(|value| value <= 1), "a yes-or-no fact is neither 0 nor 1")?;
    }
    rule(
        facts.get(Fact::FOREIGN_LOAD).is_none_or(|load| load <= 100),
        "the foreign load is above 100 percent",
    )?;
    let total = facts.get(Fact::MEMORY_TOTAL);
    for part in [Fact::MEMORY_FREE, Fact::LARGEST_ALLOCATION] {
        let fits = total.zip(facts.get(part)).is_none_or(|(total, part)| part <= total);
        rule(fits, "free memory or the largest allocation exceed the total")?;
    }
    match device.mem_info() {
        Ok(info) => rule(info.free <= info.total, "mem_info: more is free than there is"),
        Err(error) if error.is_unsupported() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn registry_is_data(device: &Device) -> Result<(), String> {
    let table = device.backend().backend_table();
    let (rows, layouts) = ((table.rows)(), (table.layouts)());
    let same =
        rows.as_ptr() == device.backend().rows().as_ptr() && rows.len() == device.backend().rows().len();
    if !same {
        return Err("rows() answers another slice on a later call".to_owned());
    }
    let known = device.backend().layouts();
    if layouts.as_ptr() != known.as_ptr() || layouts.len() != known.len() {
        return Err("layouts() answers another slice on a later call".to_owned());
    }
    Ok(())
}

fn rows(device: &Device) -> Result<(), String> {
    let layouts = device.backend().layouts();
    for row in device.backend().rows() {
        check_row(row, layouts).map_err(|rule| format!("row {}: {rule}", row.name))?;
    }
    Ok(())
}

/// Rules beyond those without which a host does not load a plugin.
fn check_row(row: &Row, layouts: &[Layout]) -> Result<(), String> {
    for (index, step) in row.steps.iter().enumerate() {
        let Some(op) = Op::from_id(step.op) else {
            return Err(format!("step {index} has unknown op {}", step.op.0));
        };
        check_step(row, step, op, layouts).map_err(|rule| format!("step {index} ({}): {rule}", op.name()))?;
    }
    for (index, arg) in row.args.iter().enumerate() {
        // An argument that some step writes is not declared read-only, and one
        // that none writes is not declared written.
        let written = row.steps.iter().any(|step| {
            let Some(op) = Op::from_id(step.op) else { return false };
            let uses = step.operands.iter().zip(operands(op));
            uses.into_iter()
                .any(|(wire, operand)| wire.as_arg() == Some(index as u32) && operand.access != Access::READ)
        });
        if written != (arg.access != Access::READ) {
            let is = if written { "written" } else { "only read" };
            return Err(format!(
                "argument {index} is {is} by its steps and declared with access {}",
                arg.access.0
            ));
        }
        if arg.alias >= 0 && arg.access == Access::READ {
            let other = row.args.get(arg.alias as usize);
            if other.is_none_or(|other| other.access == Access::READ) {
                return Err(format!(
                    "argument {index} may alias argument {}, and neither is written",
                    arg.alias
                ));
            }
        }
    }
    Ok(())
}

fn check_step(row: &Row, step: &Step, op: Op, layouts: &[Layout]) -> Result<(), String> {
    for (wire, operand) in step.operands.iter().zip(operands(op)) {
        let Some(arg) = wire.as_arg().and_then(|arg| row.args.get(arg as usize)) else { continue };
        check_operand(op, operand, arg, layouts)
            .map_err(|rule| format!("operand {}: {rule}", operand.name))?;
    }
    Ok(())
}

fn check_operand(op: Op, operand: &Operand, arg: &ArgSpec, layouts: &[Layout]) -> Result<(), String> {
    if operand.role == Role::State && u64::from(arg.align) > SECTION_ALIGN {
        return Err(format!(
            "alignment {} asked of a section of the state, which has {SECTION_ALIGN}",
            arg.align
        ));
    }
    if let Some(layout) = own_layout(layouts, arg.layout) {
        let fits = match operand.role {
            Role::Weight => layout.kind == LayoutKind::WEIGHT,
            Role::Activation => layout.kind == LayoutKind::ACTIVATION,
            Role::Plane => layout.kind == LayoutKind::KV,
            Role::State => false,
        };
        let formats = &layout.formats;
        if operand.role == Role::Weight && !formats.contains(&arg.format) {
            return Err(format!("layout `{}` is not made from format {}", layout.name, arg.format.0));
        }
        return if fits { Ok(()) } else { Err(format!("layout `{}` is of another kind", layout.name)) };
    }
    match (arg.layout, operand.role) {
        (LayoutId::GGUF, Role::Weight) if Format::from_id(arg.format.0).is_none() => {
            Err(format!("format {} is unknown", arg.format.0))
        }
        (LayoutId::GGUF, Role::Weight) | (LayoutId::KV_F16, Role::Plane) => Ok(()),
        // What `pack` and `relayout` write is for the plugin to say.
        (LayoutId::PLAIN, _)
            if operand.dtype == DtypeId::BYTES && op != Op::Pack && operand.role == Role::Weight =>
        {
            Err("a weight in blocks is not plain".to_owned())
        }
        (LayoutId::PLAIN, Role::Plane) => Err("a plane is not plain".to_owned()),
        (LayoutId::PLAIN, _) if arg.dtype == operand.dtype || operand.dtype == DtypeId::BYTES => Ok(()),
        (LayoutId::PLAIN, _) => Err(format!("dtype {} expected, {} declared", operand.dtype.0, arg.dtype.0)),
        (layout, _) => Err(format!("layout {} does not fit", layout.0)),
    }
}

fn layouts(device: &Device) -> Result<(), String> {
    let backend = device.backend();
    for (index, layout) in backend.layouts().iter().enumerate() {
        let id = LayoutId(LayoutId::OWN.0 + index as u32);
        let named = |rule: String| format!("layout `{}`: {rule}", layout.name);
        let used = backend.rows().iter().any(|row| row.args.iter().any(|arg| arg.layout == id));
        if !used {
            return Err(named("no row names it".to_owned()));
        }
        if layout.kind == LayoutKind::WEIGHT && layout.formats.is_empty() {
            return Err(named("it is made from no format".to_owned()));
        }
        let format = layout.formats.first().copied().unwrap_or(FormatId::NONE);
        let shapes = vec![Shape { format, rows: 64, width: 256 }; layout.sources as usize];
        let ask = |shapes: &[Shape]| backend.layout_bytes(id, shapes);
        match (ask(&shapes), ask(&shapes)) {
            (Ok(first), Ok(second)) if first == second && first > 0 => {}
            (Ok(first), Ok(second)) => {
                return Err(named(format!("layout_bytes answers {first}, then {second}")));
            }
            // A layout may take other widths only.
            (Err(_), _) | (_, Err(_)) => {}
        }
        let absurd = vec![Shape { format, rows: u64::MAX, width: u64::MAX - 255 }; layout.sources as usize];
        if let Ok(bytes) = ask(&absurd) {
            return Err(named(format!("layout_bytes answers {bytes} for sizes that overflow")));
        }
    }
    Ok(())
}

fn manifests(device: &Device) -> Result<(), String> {
    let target = device.facts().target;
    for (index, row) in device.backend().rows().iter().enumerate() {
        let manifest =
            device.backend().manifest(index, target.as_str()).map_err(|error| error.to_string())?;
        let Some(manifest) = manifest else { continue };
        // It may name an older target whose code this one runs.
        if manifest.target.is_empty() {
            return Err(format!("row {}: the manifest names no target", row.name));
        }
        let declared: Vec<Access> = row.args.iter().map(|arg| arg.access).collect();
        if !manifest.access.is_empty() && manifest.access.as_slice() != declared.as_slice() {
            return Err(format!("row {}: the manifest has other accesses than the row", row.name));
        }
        let spills = manifest.present & cajeta_abi::Manifest::SPILL != 0 && manifest.spill_bytes > 0;
        if spills && manifest.declared.is_empty() {
            return Err(format!("row {}: {} bytes spill, undeclared", row.name, manifest.spill_bytes));
        }
    }
    Ok(())
}

fn refusals(device: &Device) -> Result<(), String> {
    let table = device.backend().backend_table();
    let mut error = cajeta_abi::ErrorBuf::new();
    let beyond = device.backend().rows().len() as u32;
    let refused = |code: cajeta_abi::Code, call: &str, error: &cajeta_abi::ErrorBuf| {
        if code == cajeta_abi::Code::OK {
            return Err(format!("{call} answers ok"));
        }
        if error.as_str().is_empty() {
            return Err(format!("{call} refuses without a sentence"));
        }
        Ok(())
    };
    for row in [beyond, u32::MAX] {
        let (mut geometry, problem) = (cajeta_abi::Geometry::default(), Problem::default());
        let code = (table.geometry)(
            row,
            device.facts(),
            &problem,
            abi_stable::std_types::RSlice::EMPTY,
            &mut geometry,
            &mut error,
        );
        refused(code, "geometry of a row that does not exist", &error)?;
        let mut manifest = cajeta_abi::Manifest::none();
        let code =
            (table.manifest)(row, abi_stable::std_types::RStr::from_str("x"), &mut manifest, &mut error);
        refused(code, "manifest of a row that does not exist", &error)?;
    }
    let mut bytes = 0;
    let shape = [Shape { format: FormatId::NONE, rows: 1, width: 1 }];
    let unknown = LayoutId(LayoutId::OWN.0 + device.backend().layouts().len() as u32);
    let code = (table.layout_bytes)(unknown, (&shape[..]).into(), &mut bytes, &mut error);
    refused(code, "layout_bytes of a layout that does not exist", &error)?;
    let code = (table.supports)(0, cajeta_abi::Capability(1_999_999), &mut error);
    refused(code, "supports of a capability nobody has", &error)
}
