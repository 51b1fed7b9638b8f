//! Rows in words: the numbers of the interface under the names people know them by.

use cajeta::route::attribute_names;
use cajeta_abi::{Arith, DtypeId, FormatId, Layout, LayoutId, Regime, Row};
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::type_name;
use serde::Serialize;

/// One row of a backend.
#[derive(Serialize)]
pub(crate) struct RowFacts {
    pub(crate) name: String,
    pub(crate) family: String,
    /// The ops it computes, in order.
    pub(crate) ops: Vec<String>,
    pub(crate) regime: String,
    pub(crate) arith: String,
    pub(crate) priority: i32,
    /// Formats of the weights it reads.
    pub(crate) formats: Vec<String>,
    /// Capabilities the device must have.
    pub(crate) needs: Vec<String>,
    /// Constraints on shapes and on the moment.
    pub(crate) gates: Vec<String>,
    /// Layout of each argument.
    pub(crate) layouts: Vec<String>,
}

impl RowFacts {
    /// The facts of a row; `layouts` are its backend's.
    pub(crate) fn new(row: &Row, layouts: &[Layout]) -> RowFacts {
        let mut formats: Vec<String> = Vec::new();
        for argument in row.args.iter().filter(|argument| argument.format != FormatId::NONE) {
            let name = format_name(argument.format);
            if !formats.contains(&name) {
                formats.push(name);
            }
        }
        let gates = row.shape_gates.iter().map(|gate| gate.name.to_string());
        RowFacts {
            name: row.name.to_string(),
            family: row.family.to_string(),
            ops: row.steps.iter().map(|step| step_name(Op::from_id(step.op), step.attrs)).collect(),
            regime: regime_name(row.regime),
            arith: arith_name(row.arith),
            priority: row.priority,
            formats,
            needs: row.needs.iter().map(|need| need.name.to_string()).collect(),
            gates: gates.chain(row.ready_gates.iter().map(|gate| gate.name.to_string())).collect(),
            layouts: row.args.iter().map(|spec| layout_name(spec.layout, spec.dtype, layouts)).collect(),
        }
    }
}

/// An op with the attributes a row can compute: `rope_append+pairs`.
fn step_name(op: Option<Op>, attrs: u64) -> String {
    let op = op.map_or("unknown", Op::name);
    let attributes = attribute_names(attrs);
    if attributes.is_empty() { op.to_owned() } else { format!("{op}+{attributes}") }
}

/// A weight format by the name files give it.
pub(crate) fn format_name(format: FormatId) -> String {
    type_name(format.0).map_or_else(|| format!("format {}", format.0), str::to_owned)
}

/// A layout by name; `layouts` are the backend's own.
pub(crate) fn layout_name(layout: LayoutId, dtype: DtypeId, layouts: &[Layout]) -> String {
    match layout {
        LayoutId::PLAIN => dtype_name(dtype),
        LayoutId::GGUF => "gguf".into(),
        LayoutId::KV_F16 => "kv_f16".into(),
        LayoutId(own) => {
            let index = own.checked_sub(LayoutId::OWN.0).map(|index| index as usize);
            let named = index.and_then(|index| layouts.get(index)).map(|layout| layout.name.to_string());
            named.unwrap_or_else(|| format!("layout {own}"))
        }
    }
}

fn dtype_name(dtype: DtypeId) -> String {
    match dtype {
        DtypeId::BYTES => "bytes".into(),
        DtypeId::F32 => "f32".into(),
        DtypeId::F16 => "f16".into(),
        DtypeId::BF16 => "bf16".into(),
        DtypeId::U32 => "u32".into(),
        DtypeId(other) => format!("dtype {other}"),
    }
}

/// A regime by name.
pub(crate) fn regime_name(regime: Regime) -> String {
    match regime {
        Regime::DECODE_ROW => "decode-row".into(),
        Regime::PREFILL_BATCH => "prefill-batch".into(),
        Regime::BIND => "bind".into(),
        Regime::FUSED_TAIL => "fused-tail".into(),
        Regime::DECODE_COLS => "decode-cols".into(),
        Regime(other) => format!("regime {other}"),
    }
}

fn arith_name(arith: Arith) -> String {
    match arith {
        Arith::NONE => "none".into(),
        Arith::F32 => "f32".into(),
        Arith::F16 => "f16".into(),
        Arith::INT8 => "int8".into(),
        Arith::BF16 => "bf16".into(),
        Arith(other) => format!("arith {other}"),
    }
}
