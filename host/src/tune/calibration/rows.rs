//! The rows a device can be measured with.

use cajeta_abi::{ArgSpec, Arith, FormatId, LayoutId, Regime, Row};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_plugin_host::Device;

/// A row by index.
#[derive(Clone, Copy)]
pub(super) struct Tool<'a> {
    pub(super) index: usize,
    pub(super) row: &'a Row,
}

/// Rows of one op that the device supports and that need no weight rearranged first, highest priority
/// first.
pub(super) fn tools(device: &Device, op: Op) -> Vec<Tool<'static>> {
    let rows = device.backend().rows();
    let alone = |row: &Row| row.steps.len() == 1 && row.steps.iter().all(|step| step.op == op.id());
    let plain = |spec: &ArgSpec| spec.layout.0 < LayoutId::OWN.0;
    let supported =
        |row: &Row| row.needs.iter().all(|need| device.supports(need.capability).unwrap_or(false));
    let mut tools: Vec<Tool<'static>> = rows
        .iter()
        .enumerate()
        .map(|(index, row)| Tool { index, row })
        .filter(|tool| alone(tool.row) && tool.row.args.iter().all(plain) && supported(tool.row))
        .collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.row.priority));
    tools
}

/// Of products, the first of each format in a regime and, where asked, an arithmetic.
pub(super) fn products(
    device: &Device,
    regime: Regime,
    arith: Option<Arith>,
) -> Vec<(Tool<'static>, Format)> {
    let mut found: Vec<(Tool<'static>, Format)> = Vec::new();
    for tool in tools(device, Op::Matmul) {
        let wanted = tool.row.regime == regime && arith.is_none_or(|arith| tool.row.arith == arith);
        let weight = tool.row.args.iter().find(|spec| spec.format != FormatId::NONE);
        let Some(format) = weight.and_then(|spec| Format::from_id(spec.format.0)).filter(|_| wanted) else {
            continue;
        };
        if !found.iter().any(|(_, known)| *known == format) {
            found.push((tool, format));
        }
    }
    found
}
