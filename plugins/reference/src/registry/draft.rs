//! A row while it is being written: owned lists, turned into static ones at the end.

use cajeta_plugin_api::abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_plugin_api::abi::{
    Access, ArgSpec, Arith, DtypeId, FormatId, LayoutId, ReadyGate, ReadyKind, Regime, Row, ShapeGate, Step,
    Subject, Test, Wire,
};
use cajeta_plugin_api::catalog::contract::{Operand, Role, operands};
use cajeta_plugin_api::catalog::op::Op;
use cajeta_plugin_api::catalog::quant::Format;

/// One row being written.
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) regime: Regime,
    pub(super) arith: Arith,
    pub(super) priority: i32,
    pub(super) steps: Vec<(Op, u64, Vec<Wire>)>,
    pub(super) args: Vec<ArgSpec>,
    /// Step whose size a launch carries.
    pub(super) problem_step: u32,
    pub(super) shape_gates: Vec<ShapeGate>,
    pub(super) ready_gates: Vec<ReadyGate>,
}

impl Draft {
    pub(super) fn new(name: String, regime: Regime, priority: i32) -> Draft {
        Draft {
            name,
            regime,
            arith: Arith::F32,
            priority,
            steps: Vec::new(),
            args: Vec::new(),
            problem_step: 0,
            shape_gates: Vec::new(),
            ready_gates: Vec::new(),
        }
    }

    /// One op whose operands are the arguments, in order. `format` is that of
    /// the weight operand, if the op has one stored in a file format.
    pub(super) fn op(mut self, op: Op, attrs: u64, format: Option<Format>) -> Draft {
        let wires = operands(op).iter().map(|operand| self.arg(plain(operand, format))).collect();
        self.steps.push((op, attrs, wires));
        self.gate_blocks(format)
    }

    /// Adds an argument and answers the wire to it.
    pub(super) fn arg(&mut self, spec: ArgSpec) -> Wire {
        self.args.push(spec);
        Wire::arg(self.args.len() as u32 - 1)
    }

    /// The last argument may be the same buffer as argument `index`.
    pub(super) fn in_place_of(mut self, index: i32) -> Draft {
        if let Some(last) = self.args.last_mut() {
            last.alias = index;
        }
        self
    }

    /// Admits only widths of whole blocks.
    pub(super) fn gate_blocks(mut self, format: Option<Format>) -> Draft {
        let (name, blocks): (_, &'static [u64]) = match format.map(Format::block_len) {
            Some(256) => ("K % 256", &[256]),
            Some(32) => ("K % 32", &[32]),
            _ => return self,
        };
        self.shape_gates.push(ShapeGate {
            name: RStr::from_str(name),
            subject: Subject::K,
            test: Test::MULTIPLE_OF,
            values: RSlice::from_slice(blocks),
        });
        self
    }

    /// Ready only once the weight is there in the layout the row reads.
    pub(super) fn resident(mut self) -> Draft {
        let name = RStr::from_str("layout resident");
        self.ready_gates.push(ReadyGate { name, kind: ReadyKind::LAYOUT_RESIDENT });
        self
    }

    /// The finished row, with its lists in static memory.
    pub(super) fn row(self, align: u32) -> Row {
        let step = |(op, attrs, wires): (Op, u64, Vec<Wire>)| Step {
            op: op.id(),
            attrs,
            operands: RSlice::from_slice(wires.leak()),
        };
        let steps: Vec<Step> = self.steps.into_iter().map(step).collect();
        let args: Vec<ArgSpec> = self.args.into_iter().map(|arg| ArgSpec { align, ..arg }).collect();
        Row {
            name: RStr::from_str(self.name.leak()),
            family: RStr::from_str(""),
            regime: self.regime,
            arith: self.arith,
            priority: self.priority,
            steps: RSlice::from_slice(steps.leak()),
            problem_step: self.problem_step,
            args: RSlice::from_slice(args.leak()),
            needs: RSlice::EMPTY,
            shape_gates: RSlice::from_slice(self.shape_gates.leak()),
            ready_gates: RSlice::from_slice(self.ready_gates.leak()),
        }
    }
}

/// What a row expects of an operand in the catalog's own layouts.
pub(super) fn plain(operand: &Operand, format: Option<Format>) -> ArgSpec {
    let (layout, dtype, format) = match (operand.role, operand.dtype) {
        (Role::Weight, DtypeId::BYTES) => {
            (LayoutId::GGUF, DtypeId::BYTES, format.map_or(FormatId::NONE, |format| FormatId(format.id())))
        }
        (Role::Weight, dtype) => (LayoutId::PLAIN, dtype, FormatId(Format::F32.id())),
        (Role::Plane, dtype) => (LayoutId::KV_F16, dtype, FormatId::NONE),
        (_, dtype) => (LayoutId::PLAIN, dtype, FormatId::NONE),
    };
    ArgSpec { layout, dtype, format, align: 1, padding: 0, access: operand.access, alias: -1 }
}

/// f32 rows in the plain layout.
pub(super) fn rows(access: Access) -> ArgSpec {
    ArgSpec {
        layout: LayoutId::PLAIN,
        dtype: DtypeId::F32,
        format: FormatId::NONE,
        align: 1,
        padding: 0,
        access,
        alias: -1,
    }
}

/// A format's name as it stands in row names: `Q4_K` is `Q4k`.
pub(super) fn spelled(format: Format) -> String {
    format.name().replace("_K", "k").replace('_', "")
}
