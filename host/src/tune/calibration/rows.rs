//! The products a device can be measured with.

use cajeta_abi::Regime;
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_plugin_host::Device;

use crate::tune::bench::{Tool, tools};
use crate::tune::declared::weight;

/// Of products in a regime that are wanted, the first of each format as files have it, and the first of each
/// rearranged.
pub(super) fn products(
    device: &Device,
    regime: Regime,
    wanted: impl Fn(&Tool<'_>) -> bool,
) -> Vec<(Tool<'static>, Format)> {
    let mut found: Vec<(Tool<'static>, Format)> = Vec::new();
    for tool in tools(device, Op::Matmul) {
        let wanted = tool.row.regime == regime && wanted(&tool);
        let format = weight(tool.row).and_then(|spec| Format::from_id(spec.format.0));
        let Some(format) = format.filter(|_| wanted) else { continue };
        if !found.iter().any(|(other, known)| *known == format && other.is_plain() == tool.is_plain()) {
            found.push((tool, format));
        }
    }
    found
}
