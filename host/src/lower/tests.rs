//! Lowering over a registry made of rows: covers, packs, packed weights, refusals.

use cajeta_abi::abi_stable::std_types::{RSlice, RStr};
use cajeta_abi::{
    Access, ArgSpec, Arith, Capability, DtypeId, FormatId, Geometry, Layout, LayoutId, LayoutKind, Need,
    Problem, Regime, Row, Shape, ShapeGate, Step, Subject, Test, Wire,
};
use cajeta_catalog::contract;
use cajeta_catalog::op::Op;
use cajeta_catalog::quant::Format;
use cajeta_catalog::scalars::{MatmulScalars, NormScalars};
use cajeta_catalog::state::StepLayout;
use cajeta_model_arch::plan::{
    Plan, PlanOp, PlanOperand, PlanTensor, Rows, Scalars, TensorId, Value, ValueId,
};

use super::*;

mod each;
mod held;
mod overridden;
mod widened;

const OWN: LayoutId = LayoutId::OWN;
const PAIR: LayoutId = LayoutId(LayoutId::OWN.0 + 1);

/// Rows live as long as the process, as a plugin's do.
fn slice<T>(items: Vec<T>) -> RSlice<'static, T> {
    RSlice::from_slice(Vec::leak(items))
}

fn arg(access: Access) -> ArgSpec {
    let (layout, dtype, format) = (LayoutId::PLAIN, DtypeId::F32, FormatId::NONE);
    ArgSpec { layout, dtype, format, align: 1, padding: 0, access, alias: -1 }
}

fn weight() -> ArgSpec {
    ArgSpec {
        layout: LayoutId::GGUF,
        format: FormatId(Format::Q4_K.id()),
        dtype: DtypeId::BYTES,
        ..arg(Access::READ)
    }
}

fn row(name: &'static str, priority: i32, steps: Vec<(Op, Vec<Wire>)>, args: Vec<ArgSpec>) -> Row {
    let steps = steps.into_iter().map(|(op, wires)| Step { op: op.id(), attrs: 0, operands: slice(wires) });
    Row {
        name: RStr::from_str(name),
        family: RStr::from_str(""),
        regime: Regime::DECODE_ROW,
        arith: Arith::F32,
        priority,
        steps: slice(steps.collect()),
        problem_step: 0,
        args: slice(args),
        needs: RSlice::EMPTY,
        shape_gates: RSlice::EMPTY,
        ready_gates: RSlice::EMPTY,
    }
}

/// A row of one op with its operands as arguments in order.
fn plain(name: &'static str, priority: i32, op: Op, args: Vec<ArgSpec>) -> Row {
    let present = contract::operands(op).iter().map(|operand| operand.attr == 0);
    let mut next = 0..;
    let wires = present.map(|present| match (present, &mut next) {
        (true, next) => Wire::arg(next.next().unwrap_or(0)),
        (false, _) => Wire::ABSENT,
    });
    row(name, priority, vec![(op, wires.collect())], args)
}

struct Toy {
    rows: Vec<Row>,
    layouts: Vec<Layout>,
}

impl Registry for Toy {
    fn rows(&self) -> &[Row] {
        &self.rows
    }
    fn layouts(&self) -> &[Layout] {
        &self.layouts
    }
    fn supports(&self, capability: Capability) -> bool {
        capability == Capability::F16
    }
    fn geometry(&self, _row: usize, _problem: &Problem, _scalars: &[u8]) -> Result<Geometry, String> {
        Ok(Geometry::default())
    }
    fn layout_bytes(&self, _layout: LayoutId, shapes: &[Shape]) -> Result<u64, String> {
        Ok(shapes.iter().map(|shape| shape.rows * shape.width).sum())
    }
}

/// x = norm(h); gate = x W0; up = x W1; out = gate + up, over one row of 256.
fn plan() -> Plan {
    let value = |name: &str| Value { name: name.into(), rows: Rows::Step, width: 256 };
    let tensor = |name: &str, format, rows| PlanTensor {
        name: name.into(),
        format,
        rows,
        width: 256,
        offset: 0,
        bytes: 256 * 144,
    };
    let op = |op, n, scalars, operands: Vec<PlanOperand>| PlanOp {
        op,
        attrs: 0,
        layer: Some(0),
        rows: Rows::Step,
        per_row: 1,
        n,
        k: 256,
        scalars,
        operands,
    };
    let v = |id| PlanOperand::Value(ValueId(id));
    let t = |id| PlanOperand::Tensor(TensorId(id));
    let matmul = Scalars::Matmul(MatmulScalars { softcap: 0.0, reserved: 0 });
    Plan {
        values: ["h", "x", "gate", "up", "out"].map(value).to_vec(),
        tensors: vec![
            tensor("norm", Format::F32, 1),
            tensor("w0", Format::Q4_K, 256),
            tensor("w1", Format::Q4_K, 256),
        ],
        ops: vec![
            op(Op::Norm, 0, Scalars::Norm(NormScalars { eps: 1e-5, offset: 0.0 }), vec![v(0), t(0), v(1)]),
            op(Op::Matmul, 256, matmul, vec![v(1), t(1), PlanOperand::Absent, v(2)]),
            op(Op::Matmul, 256, matmul, vec![v(1), t(2), PlanOperand::Absent, v(3)]),
            op(Op::Add, 0, Scalars::None, vec![v(2), v(3), v(4)]),
        ],
        tail: 4,
        hidden: ValueId(4),
        logits: ValueId(4),
        kv: Vec::new(),
    }
}

fn sizes() -> Sizes {
    let state = StepLayout { max_rows: 1, max_seqs: 1, max_blocks: 1 };
    Sizes { rows: 1, out_rows: 1, seqs: 1, context: 16, state }
}

fn basics() -> Vec<Row> {
    let (read, write) = (arg(Access::READ), arg(Access::WRITE));
    vec![
        plain("norm", 0, Op::Norm, vec![read, read, write]),
        plain("matmul", 0, Op::Matmul, vec![read, weight(), write]),
        plain("add", 0, Op::Add, vec![read, read, write]),
    ]
}

fn names(toy: &Toy) -> Result<Vec<&str>, LowerError> {
    let program = lower(toy, &plan(), Segment::Body, &sizes(), &|_| true)?;
    Ok(program.launches.iter().map(|launch| toy.rows[launch.row].name.as_str()).collect())
}

#[test]
fn plain_rows_cover_op_by_op() {
    let toy = Toy { rows: basics(), layouts: Vec::new() };
    assert_eq!(names(&toy).expect("lowers"), ["norm", "matmul", "matmul", "add"]);
    let wanted = declare(&toy, &plan(), Segment::Body, &sizes(), &|_| true).expect("lowers");
    assert!(wanted.iter().all(WeightKey::is_file) && wanted.len() == 3);
}

#[test]
fn a_fusion_wins_by_priority_and_only_where_its_inside_stays_inside() {
    let (read, write) = (arg(Access::READ), arg(Access::WRITE));
    let (x, w, out) = (Wire::arg(0), Wire::arg(1), Wire::arg(3));
    let fused = |priority| {
        let steps = vec![
            (Op::Matmul, vec![x, w, Wire::ABSENT, Wire::internal(0)]),
            (Op::Add, vec![Wire::arg(2), Wire::internal(0), out]),
        ];
        row("matmulAdd", priority, steps, vec![read, weight(), read, write])
    };
    let mut toy = Toy { rows: basics(), layouts: Vec::new() };
    toy.rows.push(fused(1));
    assert_eq!(names(&toy).expect("lowers"), ["norm", "matmul", "matmulAdd"]);
    toy.rows[3] = fused(-1);
    assert_eq!(names(&toy).expect("lowers"), ["norm", "matmul", "matmul", "add"]);
}

#[test]
fn a_pack_is_inserted_once_and_fused_with_its_producer_where_a_row_does_that() {
    let (read, write) = (arg(Access::READ), arg(Access::WRITE));
    let packed = |access| ArgSpec { layout: OWN, dtype: DtypeId::BYTES, ..arg(access) };
    let activation = Layout {
        name: RStr::from_str("q8"),
        kind: LayoutKind::ACTIVATION,
        sources: 1,
        formats: RSlice::EMPTY,
        align: 1,
    };
    let mut toy = Toy { rows: basics(), layouts: vec![activation] };
    toy.rows.push(plain("matmulQ8", 5, Op::Matmul, vec![packed(Access::READ), weight(), write]));
    // Without a pack row the packed matmul cannot be fed.
    assert_eq!(names(&toy).expect("lowers"), ["norm", "matmul", "matmul", "add"]);
    toy.rows.push(plain("pack", 0, Op::Pack, vec![read, packed(Access::WRITE)]));
    assert_eq!(names(&toy).expect("lowers"), ["norm", "pack", "matmulQ8", "matmulQ8", "add"]);
    let steps = vec![
        (Op::Norm, vec![Wire::arg(0), Wire::arg(1), Wire::internal(0)]),
        (Op::Pack, vec![Wire::internal(0), Wire::arg(2)]),
    ];
    toy.rows.push(row("normPack", 0, steps, vec![read, read, packed(Access::WRITE)]));
    assert_eq!(names(&toy).expect("lowers"), ["normPack", "matmulQ8", "matmulQ8", "add"]);
}

#[test]
fn tensors_packed_in_one_layout_are_one_weight() {
    let write = arg(Access::WRITE);
    let pair = Layout {
        name: RStr::from_str("pair"),
        kind: LayoutKind::WEIGHT,
        sources: 2,
        formats: slice(vec![FormatId(Format::Q4_K.id())]),
        align: 1,
    };
    let filler = Layout { name: RStr::from_str("unused"), sources: 1, ..pair };
    let steps = vec![
        (Op::Matmul, vec![Wire::arg(0), Wire::arg(1), Wire::ABSENT, Wire::arg(2)]),
        (Op::Matmul, vec![Wire::arg(0), Wire::arg(1), Wire::ABSENT, Wire::arg(3)]),
    ];
    let both = ArgSpec { layout: PAIR, ..weight() };
    let mut toy = Toy { rows: basics(), layouts: vec![filler, pair] };
    toy.rows.push(row("matmulPair", 9, steps, vec![arg(Access::READ), both, write, write]));
    // Nothing makes the layout yet.
    let wanted = declare(&toy, &plan(), Segment::Body, &sizes(), &|_| true).expect("lowers");
    assert!(wanted.iter().all(WeightKey::is_file));
    let out = ArgSpec { access: Access::WRITE, format: FormatId::NONE, ..both };
    let wires = vec![Wire::arg(0), Wire::arg(1), Wire::ABSENT, Wire::arg(2)];
    let mut relayout = row("relayoutPair", 0, vec![(Op::Relayout, wires)], vec![weight(), weight(), out]);
    relayout.regime = Regime::BIND;
    toy.rows.push(relayout);
    let wanted = declare(&toy, &plan(), Segment::Body, &sizes(), &|_| true).expect("lowers");
    let key = WeightKey::new(PAIR, vec![TensorId(1), TensorId(2)]);
    assert!(wanted.contains(&key), "{wanted:?}");
    assert_eq!(names(&toy).expect("lowers"), ["norm", "matmulPair", "add"]);
    // What is not resident is not used.
    let program = lower(&toy, &plan(), Segment::Body, &sizes(), &WeightKey::is_file).expect("lowers");
    assert_eq!(program.launches.len(), 4);
}

#[test]
fn no_admissible_row_names_every_row_and_gate() {
    let mut toy = Toy { rows: basics(), layouts: Vec::new() };
    let gate = ShapeGate {
        name: RStr::from_str("K % 512"),
        subject: Subject::K,
        test: Test::MULTIPLE_OF,
        values: slice(vec![512]),
    };
    toy.rows[1].shape_gates = slice(vec![gate]);
    let mut needy = toy.rows[1];
    needy.name = RStr::from_str("matmulMatrix");
    needy.shape_gates = RSlice::EMPTY;
    needy.needs =
        slice(vec![Need { capability: Capability::MATRIX_F16, name: RStr::from_str("matrix cores") }]);
    toy.rows.push(needy);
    let error = names(&toy).expect_err("nothing serves").to_string();
    for part in ["matmul gate", "Q4_K", "matmul: shape: K % 512", "matmulMatrix: unsupported: matrix cores"] {
        assert!(error.contains(part), "{part} is not in: {error}");
    }
    assert!(error.find("matmulMatrix") < error.find("matmul: shape"), "the furthest row comes first");
}
