//! Numbers of the interface under the names people know them by.

use cajeta_abi::{FormatId, Regime};
use cajeta_catalog::op::attr;
use cajeta_catalog::quant::type_name;

/// The names of attribute bits.
pub fn attribute_names(bits: u64) -> String {
    let names: Vec<&str> =
        attr::NAMES.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    names.join("+")
}

/// A regime by name.
pub fn regime_name(regime: Regime) -> String {
    match regime {
        Regime::DECODE_ROW => "decode-row".into(),
        Regime::PREFILL_BATCH => "prefill-batch".into(),
        Regime::BIND => "bind".into(),
        Regime::FUSED_TAIL => "fused-tail".into(),
        Regime::DECODE_COLS => "decode-cols".into(),
        Regime(other) => format!("regime {other}"),
    }
}

/// A weight format by the name files give it.
pub fn format_name(format: FormatId) -> String {
    match format {
        FormatId::NONE => "no weight".into(),
        _ => type_name(format.0).map_or_else(|| format!("format {}", format.0), str::to_owned),
    }
}
