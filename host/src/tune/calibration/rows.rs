//! The rows a device can be measured with.

use cajeta_abi::{ArgSpec, FormatId, LayoutId, Regime, Row};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_plugin_host::Device;

/// A row by index.
#[derive(Clone, Copy)]
pub(in crate::tune) struct Tool<'a> {
    pub(in crate::tune) index: usize,
    pub(in crate::tune) row: &'a Row,
}

impl Tool<'_> {
    /// Whether it reads and writes memory as files and the catalog lay it out.
    pub(super) fn is_plain(&self) -> bool {
        self.row.args.iter().all(|spec: &ArgSpec| spec.layout.0 < LayoutId::OWN.0)
    }
}

/// Rows of one op that the device supports and that need no weight rearranged first, highest priority
/// first.
pub(in crate::tune) fn tools(device: &Device, op: Op) -> Vec<Tool<'static>> {
    supported(device, op).into_iter().filter(Tool::is_plain).collect()
}

/// Rows of one op that the device supports, highest priority first.
fn supported(device: &Device, op: Op) -> Vec<Tool<'static>> {
    let rows = device.backend().rows();
    let alone = |row: &Row| row.steps.len() == 1 && row.steps.iter().all(|step| step.op == op.id());
    let supported =
        |row: &Row| row.needs.iter().all(|need| device.supports(need.capability).unwrap_or(false));
    let mut tools: Vec<Tool<'static>> = rows
        .iter()
        .enumerate()
        .map(|(index, row)| Tool { index, row })
        .filter(|tool| alone(tool.row) && supported(tool.row))
        .collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.row.priority));
    tools
}

/// Of products in a regime that are wanted, the first of each format as files have it, and the first of each
/// rearranged.
pub(super) fn products(
    device: &Device,
    regime: Regime,
    wanted: impl Fn(&Tool<'_>) -> bool,
) -> Vec<(Tool<'static>, Format)> {
    let mut found: Vec<(Tool<'static>, Format)> = Vec::new();
    for tool in supported(device, Op::Matmul) {
        let wanted = tool.row.regime == regime && wanted(&tool);
        let weight = tool.row.args.iter().find(|spec| spec.format != FormatId::NONE);
        let Some(format) = weight.and_then(|spec| Format::from_id(spec.format.0)).filter(|_| wanted) else {
            continue;
        };
        if !found.iter().any(|(other, known)| *known == format && other.is_plain() == tool.is_plain()) {
            found.push((tool, format));
        }
    }
    found
}
