//! The rows that a device can be measured with by themselves.

use cajeta_abi::{ArgSpec, LayoutId, Row};
use cajeta_catalog::op::Op;
use cajeta_plugin_host::Device;

use crate::route::usable::KernelCap;
use crate::tune::declared::is_alone;

/// A row by index.
#[derive(Clone, Copy)]
pub(in crate::tune) struct Tool<'a> {
    pub(in crate::tune) index: usize,
    pub(in crate::tune) row: &'a Row,
}

impl Tool<'_> {
    /// Whether it reads and writes memory as files and the catalog lay it out.
    pub(in crate::tune) fn is_plain(&self) -> bool {
        self.row.args.iter().all(|spec: &ArgSpec| spec.layout.0 < LayoutId::OWN.0)
    }
}

/// Rows of one op that the device can run and that need no weight rearranged first, highest priority first.
pub(in crate::tune) fn plain_tools(device: &Device, op: Op) -> Vec<Tool<'static>> {
    tools(device, op).into_iter().filter(Tool::is_plain).collect()
}

/// Rows of one op that the device can run, highest priority first: it has what they need, and nothing
/// speaks against their kernels, such as a recorded defect.
pub(in crate::tune) fn tools(device: &Device, op: Op) -> Vec<Tool<'static>> {
    let kernels = KernelCap::of(device);
    let can_run = |row: &Row| {
        let has = row.needs.iter().all(|need| device.supports(need.capability).unwrap_or(false));
        has && kernels.unusable(row.name.as_str()).is_none()
    };
    let rows = device.backend().rows().iter().enumerate();
    let tools = rows.map(|(index, row)| Tool { index, row });
    let mut tools: Vec<Tool<'static>> =
        tools.filter(|tool| is_alone(tool.row, op) && can_run(tool.row)).collect();
    tools.sort_by_key(|tool| std::cmp::Reverse(tool.row.priority));
    tools
}
